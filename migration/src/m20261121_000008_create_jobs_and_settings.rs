//! Queue of background jobs, and settings of the instance.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("jobs")
                .col(text("kind"))
                .col(text("payload"))
                .col(text_null("dedup_key"))
                .col(timestamp_with_time_zone("run_at"))
                .col(integer("attempts").default(0))
                .col(integer("max_attempts"))
                .col(text_null("locked_by"))
                .col(timestamp_with_time_zone_null("locked_until"))
                .col(text_null("last_error"))
                .col(timestamp_with_time_zone_null("dead_at"))
                .col(timestamp_with_time_zone("created_at"))
                .check(Check::named(
                    "ck_jobs_lease",
                    Expr::col("locked_by")
                        .is_null()
                        .eq(Expr::col("locked_until").is_null()),
                )),
            [
                // Only waiting jobs absorb a second one with their key, because a running job may have read
                // its input already.
                unique("jobs", &["kind", "dedup_key"])
                    .and_where(
                        Expr::col("locked_by")
                            .is_null()
                            .and(Expr::col("dead_at").is_null()),
                    )
                    .to_owned(),
                index("jobs", &["run_at", "id"])
                    .and_where(Expr::col("dead_at").is_null())
                    .to_owned(),
                index("jobs", &["locked_until"]),
            ],
        )
        .await?;
        manager
            .create_table(
                Table::create()
                    .table("settings")
                    .col(text("key").primary_key())
                    .col(text("value"))
                    .col(timestamp_with_time_zone("updated_at"))
                    .take(),
            )
            .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["jobs", "settings"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
