//! Snippets of projects and users, and epics of groups with their issues.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("snippets")
                .col(big_integer_null("project_id"))
                .col(big_integer("author_id"))
                .col(text("title"))
                .col(text_null("description"))
                .col(text("file_name"))
                .col(text("content"))
                .col(text("visibility"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "snippets",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "snippets",
                    "author_id",
                    "users",
                    ForeignKeyAction::Cascade,
                ))
                .check(one_of(
                    "snippets",
                    "visibility",
                    &["private", "internal", "public"],
                )),
            [
                index("snippets", &["project_id", "id"]),
                index("snippets", &["author_id", "id"]),
                index("snippets", &["visibility", "id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("epics")
                .col(big_integer("namespace_id"))
                .col(big_integer("iid"))
                .col(big_integer_null("parent_id"))
                .col(big_integer_null("author_id"))
                .col(text("title"))
                .col(text_null("description"))
                .col(text("state"))
                .col(boolean("confidential").default(false))
                .col(date_null("start_date"))
                .col(date_null("due_date"))
                .col(timestamp_with_time_zone_null("closed_at"))
                .col(big_integer_null("closed_by_id"))
                .col(integer("upvotes").default(0))
                .col(integer("downvotes").default(0))
                .col(integer("user_notes_count").default(0))
                .col(timestamp_with_time_zone_null("last_edited_at"))
                .col(big_integer_null("last_edited_by_id"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "epics",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "epics",
                    "parent_id",
                    "epics",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "epics",
                    "author_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "epics",
                    "closed_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "epics",
                    "last_edited_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(one_of("epics", "state", &["opened", "closed"])),
            [
                unique("epics", &["namespace_id", "iid"]),
                index("epics", &["namespace_id", "created_at", "id"]),
                index("epics", &["namespace_id", "updated_at", "id"]),
                index("epics", &["parent_id"]),
                index("epics", &["author_id"]),
                index("epics", &["closed_by_id"]),
                index("epics", &["last_edited_by_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("epic_labels")
                .col(big_integer("epic_id"))
                .col(big_integer("label_id"))
                .foreign_key(&mut reference(
                    "epic_labels",
                    "epic_id",
                    "epics",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "epic_labels",
                    "label_id",
                    "labels",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("epic_labels", &["epic_id", "label_id"]),
                index("epic_labels", &["label_id", "epic_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("epic_issues")
                .col(big_integer("epic_id"))
                .col(big_integer("issue_id"))
                .col(big_integer_null("relative_position"))
                .foreign_key(&mut reference(
                    "epic_issues",
                    "epic_id",
                    "epics",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "epic_issues",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("epic_issues", &["issue_id"]),
                index("epic_issues", &["epic_id", "relative_position", "id"]),
            ],
        )
        .await?;

        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["snippets", "epics", "epic_labels", "epic_issues"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
