//! Issue boards and badges of projects and groups.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("boards")
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(text("name"))
                .col(boolean("hide_backlog_list").default(false))
                .col(boolean("hide_closed_list").default(false))
                .col(big_integer_null("milestone_id"))
                .col(big_integer_null("assignee_id"))
                .col(integer_null("weight"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "boards",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "boards",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "boards",
                    "milestone_id",
                    "milestones",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "boards",
                    "assignee_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(exactly_one("boards", &["project_id", "namespace_id"])),
            [
                index("boards", &["project_id", "id"]),
                index("boards", &["namespace_id", "id"]),
                index("boards", &["milestone_id"]),
                index("boards", &["assignee_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("board_labels")
                .col(big_integer("board_id"))
                .col(big_integer("label_id"))
                .foreign_key(&mut reference(
                    "board_labels",
                    "board_id",
                    "boards",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "board_labels",
                    "label_id",
                    "labels",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("board_labels", &["board_id", "label_id"]),
                index("board_labels", &["label_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("board_lists")
                .col(big_integer("board_id"))
                .col(big_integer_null("label_id"))
                .col(big_integer_null("milestone_id"))
                .col(big_integer_null("assignee_id"))
                .col(integer("position"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "board_lists",
                    "board_id",
                    "boards",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "board_lists",
                    "label_id",
                    "labels",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "board_lists",
                    "milestone_id",
                    "milestones",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "board_lists",
                    "assignee_id",
                    "users",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one(
                    "board_lists",
                    &["label_id", "milestone_id", "assignee_id"],
                )),
            [
                index("board_lists", &["board_id", "position"]),
                index("board_lists", &["label_id"]),
                index("board_lists", &["milestone_id"]),
                index("board_lists", &["assignee_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("badges")
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(text_null("name"))
                .col(text("link_url"))
                .col(text("image_url"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "badges",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "badges",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one("badges", &["project_id", "namespace_id"])),
            [
                index("badges", &["project_id", "id"]),
                index("badges", &["namespace_id", "id"]),
            ],
        )
        .await?;

        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["boards", "board_labels", "board_lists", "badges"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
