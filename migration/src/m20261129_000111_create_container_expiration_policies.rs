//! Expiration policies of the container registry, which delete tags of projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const POLICIES: &str = "container_expiration_policies";
const CADENCES: &[&str] = &["1d", "7d", "14d", "1month", "3month"];
const AGES: &[&str] = &["7d", "14d", "30d", "60d", "90d"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(POLICIES)
                .col(big_integer("project_id"))
                .col(text("cadence"))
                .col(big_integer_null("keep_n"))
                .col(text_null("older_than"))
                .col(text_null("name_regex_delete"))
                .col(text_null("name_regex_keep"))
                .col(timestamp_with_time_zone_null("next_run_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    POLICIES,
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .check(one_of(POLICIES, "cadence", CADENCES))
                .check(one_of(POLICIES, "older_than", AGES)),
            [
                unique(POLICIES, &["project_id"]),
                index(POLICIES, &["next_run_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[POLICIES]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
