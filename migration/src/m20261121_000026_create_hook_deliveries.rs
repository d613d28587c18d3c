//! Outbox and log of webhook deliveries.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("hook_deliveries")
                .col(big_integer("hook_id"))
                .col(big_integer_null("event_id"))
                .col(text("uuid"))
                .col(text("kind"))
                .col(text("url"))
                .col(text("state"))
                .col(integer("attempts").default(0))
                .col(timestamp_with_time_zone("next_attempt_at"))
                .col(text_null("request_body"))
                .col(integer_null("response_status"))
                .col(text_null("response_headers"))
                .col(text_null("response_body"))
                .col(text_null("error"))
                .col(integer_null("duration_ms"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone_null("finished_at"))
                .foreign_key(&mut reference(
                    "hook_deliveries",
                    "hook_id",
                    "project_hooks",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "hook_deliveries",
                    "event_id",
                    "events",
                    ForeignKeyAction::Cascade,
                ))
                .check(one_of(
                    "hook_deliveries",
                    "state",
                    &["pending", "delivered", "failed"],
                ))
                // A delivery without an event and a body could never be sent.
                .check(Check::named(
                    "ck_hook_deliveries_content",
                    Expr::col("event_id")
                        .is_not_null()
                        .or(Expr::col("request_body").is_not_null()),
                )),
            [
                index("hook_deliveries", &["hook_id", "id"]),
                index("hook_deliveries", &["hook_id", "state", "id"]),
                index("hook_deliveries", &["state", "created_at"]),
                index("hook_deliveries", &["event_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["hook_deliveries"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
