//! Merge requests, their assignees and labels, and the issues they close.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("merge_requests")
                .col(big_integer("target_project_id"))
                .col(big_integer_null("source_project_id"))
                .col(big_integer("iid"))
                .col(big_integer_null("author_id"))
                .col(text("source_branch"))
                .col(text("target_branch"))
                .col(text("title"))
                .col(text_null("description"))
                .col(text("state"))
                .col(boolean("discussion_locked").default(false))
                .col(big_integer_null("milestone_id"))
                .col(date_null("milestone_due_on"))
                .col(integer_null("label_priority"))
                .col(text("head_sha"))
                .col(text("base_sha"))
                .col(text("start_sha"))
                .col(text("merge_status"))
                .col(text_null("merge_status_of"))
                .col(text_null("merge_error"))
                .col(boolean("squash").default(false))
                .col(boolean_null("force_remove_source_branch"))
                .col(boolean_null("should_remove_source_branch"))
                .col(boolean("allow_collaboration").default(false))
                .col(boolean("merge_when_pipeline_succeeds").default(false))
                .col(big_integer_null("merge_user_id"))
                .col(text_null("merge_params"))
                .col(text_null("merge_commit_sha"))
                .col(text_null("squash_commit_sha"))
                .col(big_integer_null("merged_by_id"))
                .col(timestamp_with_time_zone_null("merged_at"))
                .col(big_integer_null("closed_by_id"))
                .col(timestamp_with_time_zone_null("closed_at"))
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
                    "merge_requests",
                    "target_project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "merge_requests",
                    "source_project_id",
                    "projects",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "merge_requests",
                    "author_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "merge_requests",
                    "milestone_id",
                    "milestones",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "merge_requests",
                    "merge_user_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "merge_requests",
                    "merged_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "merge_requests",
                    "closed_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "merge_requests",
                    "last_edited_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(one_of(
                    "merge_requests",
                    "state",
                    &["opened", "closed", "locked", "merged"],
                ))
                .check(one_of(
                    "merge_requests",
                    "merge_status",
                    &["unchecked", "can_be_merged", "cannot_be_merged"],
                )),
            [
                unique("merge_requests", &["target_project_id", "iid"]),
                index("merge_requests", &["target_project_id", "created_at", "id"]),
                index("merge_requests", &["target_project_id", "updated_at", "id"]),
                index("merge_requests", &["created_at", "id"]),
                index("merge_requests", &["updated_at", "id"]),
                index("merge_requests", &["author_id", "created_at", "id"]),
                index("merge_requests", &["source_project_id", "source_branch"]),
                index("merge_requests", &["target_project_id", "target_branch"]),
                index("merge_requests", &["milestone_id"]),
                index("merge_requests", &["merge_user_id"]),
                index("merge_requests", &["merged_by_id"]),
                index("merge_requests", &["closed_by_id"]),
                index("merge_requests", &["last_edited_by_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("merge_request_assignees")
                .col(big_integer("merge_request_id"))
                .col(big_integer("user_id"))
                .foreign_key(&mut reference(
                    "merge_request_assignees",
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "merge_request_assignees",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("merge_request_assignees", &["merge_request_id", "user_id"]),
                index("merge_request_assignees", &["user_id", "merge_request_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("merge_request_labels")
                .col(big_integer("merge_request_id"))
                .col(big_integer("label_id"))
                .foreign_key(&mut reference(
                    "merge_request_labels",
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "merge_request_labels",
                    "label_id",
                    "labels",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("merge_request_labels", &["merge_request_id", "label_id"]),
                index("merge_request_labels", &["label_id", "merge_request_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("closing_merge_requests")
                .col(big_integer("issue_id"))
                .col(big_integer("merge_request_id"))
                .foreign_key(&mut reference(
                    "closing_merge_requests",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "closing_merge_requests",
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("closing_merge_requests", &["issue_id", "merge_request_id"]),
                index("closing_merge_requests", &["merge_request_id"]),
            ],
        )
        .await?;
        manager
            .create_index(
                Index::create()
                    .name("uq_merge_requests_opened")
                    .table("merge_requests")
                    .col("source_project_id")
                    .col("source_branch")
                    .col("target_project_id")
                    .col("target_branch")
                    .and_where(Expr::col("state").eq("opened"))
                    .unique()
                    .to_owned(),
            )
            .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(
            manager,
            &[
                "merge_requests",
                "merge_request_assignees",
                "merge_request_labels",
                "closing_merge_requests",
            ],
        )
        .await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
