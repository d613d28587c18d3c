//! Notes on issues, merge requests, snippets and epics, and award emoji on all of these.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("notes")
                .col(big_integer_null("issue_id"))
                .col(big_integer_null("merge_request_id"))
                .col(big_integer_null("snippet_id"))
                .col(big_integer_null("epic_id"))
                .col(big_integer_null("author_id"))
                .col(text_null("kind"))
                .col(text_null("discussion_id"))
                .col(text("body"))
                .col(boolean("system").default(false))
                .col(boolean("confidential").default(false))
                .col(text_null("position"))
                .col(big_integer_null("referenced_issue_id"))
                .col(big_integer_null("referenced_merge_request_id"))
                .col(big_integer_null("referenced_project_id"))
                .col(timestamp_with_time_zone_null("resolved_at"))
                .col(big_integer_null("resolved_by_id"))
                .col(big_integer_null("updated_by_id"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "notes",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "snippet_id",
                    "snippets",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "epic_id",
                    "epics",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "author_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "referenced_issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "referenced_merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "referenced_project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "resolved_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "notes",
                    "updated_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(exactly_one(
                    "notes",
                    &["issue_id", "merge_request_id", "snippet_id", "epic_id"],
                ))
                .check(one_of("notes", "kind", &["diff", "discussion"])),
            [
                index("notes", &["issue_id", "created_at", "id"]),
                index("notes", &["merge_request_id", "created_at", "id"]),
                index("notes", &["snippet_id", "created_at", "id"]),
                index("notes", &["epic_id", "created_at", "id"]),
                index("notes", &["issue_id", "updated_at", "id"]),
                index("notes", &["merge_request_id", "updated_at", "id"]),
                index("notes", &["snippet_id", "updated_at", "id"]),
                index("notes", &["epic_id", "updated_at", "id"]),
                index("notes", &["author_id"]),
                index("notes", &["referenced_issue_id"]),
                index("notes", &["referenced_merge_request_id"]),
                index("notes", &["referenced_project_id"]),
                index("notes", &["resolved_by_id"]),
                index("notes", &["updated_by_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("award_emoji")
                .col(big_integer_null("issue_id"))
                .col(big_integer_null("merge_request_id"))
                .col(big_integer_null("snippet_id"))
                .col(big_integer_null("epic_id"))
                .col(big_integer_null("note_id"))
                .col(big_integer("user_id"))
                .col(text("name"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "award_emoji",
                    "issue_id",
                    "issues",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "award_emoji",
                    "merge_request_id",
                    "merge_requests",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "award_emoji",
                    "snippet_id",
                    "snippets",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "award_emoji",
                    "epic_id",
                    "epics",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "award_emoji",
                    "note_id",
                    "notes",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "award_emoji",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one(
                    "award_emoji",
                    &["issue_id", "merge_request_id", "snippet_id", "epic_id", "note_id"],
                )),
            [
                unique("award_emoji", &["issue_id", "user_id", "name"]),
                unique("award_emoji", &["merge_request_id", "user_id", "name"]),
                unique("award_emoji", &["snippet_id", "user_id", "name"]),
                unique("award_emoji", &["epic_id", "user_id", "name"]),
                unique("award_emoji", &["note_id", "user_id", "name"]),
                index("award_emoji", &["user_id", "name"]),
            ],
        )
        .await?;

        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["notes", "award_emoji"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
