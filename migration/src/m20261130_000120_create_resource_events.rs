//! Events of the labels, the state and the milestone of issues and merge requests. Labels and milestones are referenced
//! without foreign keys: an event remains after their deletion, and IDs are never reused.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, one_of, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

const EVENTS: &str = "resource_events";
const KINDS: &[&str] = &["label", "state", "milestone"];
const ACTIONS: &[&str] = &["add", "remove", "closed", "reopened", "merged"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let owner = |column, target| reference(EVENTS, column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table(EVENTS)
                .col(big_integer_null("issue_id"))
                .col(big_integer_null("merge_request_id"))
                .col(text("kind").check(one_of(EVENTS, "kind", KINDS)))
                .col(text("action").check(one_of(EVENTS, "action", ACTIONS)))
                .col(big_integer_null("user_id"))
                .col(big_integer_null("label_id"))
                .col(big_integer_null("milestone_id"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut owner("issue_id", "issues"))
                .foreign_key(&mut owner("merge_request_id", "merge_requests"))
                .foreign_key(&mut reference(
                    EVENTS,
                    "user_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(exactly_one(EVENTS, &["issue_id", "merge_request_id"])),
            [
                index(EVENTS, &["issue_id", "kind", "id"]),
                index(EVENTS, &["merge_request_id", "kind", "id"]),
                index(EVENTS, &["user_id"]),
                index(EVENTS, &["label_id"]),
                index(EVENTS, &["milestone_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[EVENTS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
