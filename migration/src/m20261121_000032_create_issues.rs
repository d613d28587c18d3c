//! Issues, their assignees and labels.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("issues")
                .col(big_integer("project_id"))
                .col(big_integer("iid"))
                .col(big_integer_null("author_id"))
                .col(text("title"))
                .col(text_null("description"))
                .col(text("state"))
                .col(boolean("confidential").default(false))
                .col(boolean("discussion_locked").default(false))
                .col(big_integer_null("milestone_id"))
                .col(date_null("milestone_due_on"))
                .col(integer_null("label_priority"))
                .col(date_null("due_date"))
                .col(integer_null("weight"))
                .col(big_integer_null("relative_position"))
                .col(big_integer_null("moved_to_id"))
                .col(timestamp_with_time_zone_null("closed_at"))
                .col(big_integer_null("closed_by_id"))
                .col(integer("merge_requests_count").default(0))
                .col(big_integer("time_estimate").default(0))
                .col(big_integer("total_time_spent").default(0))
                .col(integer("upvotes").default(0))
                .col(integer("downvotes").default(0))
                .col(integer("user_notes_count").default(0))
                .col(integer("tasks").default(0))
                .col(integer("completed_tasks").default(0))
                .col(timestamp_with_time_zone_null("last_edited_at"))
                .col(big_integer_null("last_edited_by_id"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "issues",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "issues",
                    "author_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "issues",
                    "milestone_id",
                    "milestones",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "issues",
                    "moved_to_id",
                    "issues",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "issues",
                    "closed_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "issues",
                    "last_edited_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(one_of("issues", "state", &["opened", "closed"])),
            [
                unique("issues", &["project_id", "iid"]),
                index("issues", &["project_id", "created_at", "id"]),
                index("issues", &["project_id", "updated_at", "id"]),
                index("issues", &["created_at", "id"]),
                index("issues", &["updated_at", "id"]),
                index("issues", &["author_id", "created_at", "id"]),
                index("issues", &["state", "created_at", "id"]),
                index("issues", &["confidential", "created_at", "id"]),
                index("issues", &["iid"]),
                index("issues", &["milestone_id"]),
                index("issues", &["moved_to_id"]),
                index("issues", &["closed_by_id"]),
                index("issues", &["last_edited_by_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("issue_assignees")
                .col(big_integer("issue_id"))
                .col(big_integer("user_id"))
                .foreign_key(&mut reference(
                    "issue_assignees",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "issue_assignees",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("issue_assignees", &["issue_id", "user_id"]),
                index("issue_assignees", &["user_id", "issue_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("issue_labels")
                .col(big_integer("issue_id"))
                .col(big_integer("label_id"))
                .foreign_key(&mut reference(
                    "issue_labels",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "issue_labels",
                    "label_id",
                    "labels",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("issue_labels", &["issue_id", "label_id"]),
                index("issue_labels", &["label_id", "issue_id"]),
            ],
        )
        .await?;

        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["issues", "issue_assignees", "issue_labels"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
