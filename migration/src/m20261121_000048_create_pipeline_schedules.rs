//! Pipeline schedules of projects and their variables.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("pipeline_schedules")
                .col(big_integer("project_id"))
                .col(big_integer_null("owner_id"))
                .col(text("description"))
                .col(text("ref_name"))
                .col(text("cron"))
                .col(text("cron_timezone"))
                .col(timestamp_with_time_zone("next_run_at"))
                .col(boolean("active"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "pipeline_schedules",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "pipeline_schedules",
                    "owner_id",
                    "users",
                    ForeignKeyAction::SetNull,
                )),
            [
                index("pipeline_schedules", &["project_id", "id"]),
                index("pipeline_schedules", &["owner_id"]),
                index("pipeline_schedules", &["active", "next_run_at"]),
            ],
        )
        .await?;
        create(
            manager,
            table("pipeline_schedule_variables")
                .col(big_integer("schedule_id"))
                .col(text("key"))
                .col(text("value_encrypted"))
                .col(text("kind"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "pipeline_schedule_variables",
                    "schedule_id",
                    "pipeline_schedules",
                    ForeignKeyAction::Cascade,
                ))
                .check(one_of(
                    "pipeline_schedule_variables",
                    "kind",
                    &["env_var", "file"],
                )),
            [unique("pipeline_schedule_variables", &["schedule_id", "key"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["pipeline_schedules", "pipeline_schedule_variables"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
