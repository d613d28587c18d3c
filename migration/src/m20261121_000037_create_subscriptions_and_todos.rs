//! Subscriptions, to-do items and time tracking.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("subscriptions")
                .col(big_integer("user_id"))
                .col(big_integer_null("issue_id"))
                .col(big_integer_null("merge_request_id"))
                .col(big_integer_null("epic_id"))
                .col(big_integer_null("label_id"))
                .col(boolean("subscribed"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "subscriptions",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "subscriptions",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "subscriptions",
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "subscriptions",
                    "epic_id",
                    "epics",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "subscriptions",
                    "label_id",
                    "labels",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one(
                    "subscriptions",
                    &["issue_id", "merge_request_id", "epic_id", "label_id"],
                )),
            [
                unique("subscriptions", &["issue_id", "user_id"]),
                unique("subscriptions", &["merge_request_id", "user_id"]),
                unique("subscriptions", &["epic_id", "user_id"]),
                unique("subscriptions", &["label_id", "user_id"]),
                index("subscriptions", &["user_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("todos")
                .col(big_integer("user_id"))
                .col(big_integer_null("author_id"))
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(big_integer_null("issue_id"))
                .col(big_integer_null("merge_request_id"))
                .col(big_integer_null("epic_id"))
                .col(big_integer_null("note_id"))
                .col(text("action"))
                .col(text("state"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "todos",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "todos",
                    "author_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "todos",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "todos",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "todos",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "todos",
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "todos",
                    "epic_id",
                    "epics",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "todos",
                    "note_id",
                    "notes",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one("todos", &["issue_id", "merge_request_id", "epic_id"]))
                .check(exactly_one("todos", &["project_id", "namespace_id"]))
                .check(one_of(
                    "todos",
                    "action",
                    &[
                        "assigned",
                        "mentioned",
                        "build_failed",
                        "marked",
                        "approval_required",
                        "unmergeable",
                        "directly_addressed",
                    ],
                ))
                .check(one_of("todos", "state", &["pending", "done"])),
            [
                index("todos", &["user_id", "state", "id"]),
                index("todos", &["author_id"]),
                index("todos", &["project_id"]),
                index("todos", &["namespace_id"]),
                index("todos", &["issue_id"]),
                index("todos", &["merge_request_id"]),
                index("todos", &["epic_id"]),
                index("todos", &["note_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("timelogs")
                .col(big_integer_null("issue_id"))
                .col(big_integer_null("merge_request_id"))
                .col(big_integer_null("user_id"))
                .col(big_integer("time_spent"))
                .col(timestamp_with_time_zone("spent_at"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    "timelogs",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "timelogs",
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "timelogs",
                    "user_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(exactly_one("timelogs", &["issue_id", "merge_request_id"])),
            [
                index("timelogs", &["issue_id"]),
                index("timelogs", &["merge_request_id"]),
                index("timelogs", &["user_id"]),
            ],
        )
        .await?;

        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["subscriptions", "todos", "timelogs"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
