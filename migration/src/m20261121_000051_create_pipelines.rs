//! Pipelines of projects with their variables and jobs. A commit status reported by an external system is a
//! job.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Statuses of pipelines and jobs.
const STATUSES: [&str; 11] = [
    "created",
    "waiting_for_resource",
    "preparing",
    "pending",
    "running",
    "success",
    "failed",
    "canceled",
    "skipped",
    "manual",
    "scheduled",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let follows = |table, column, target| reference(table, column, target, ForeignKeyAction::Cascade);
        let forgets = |table, column, target| reference(table, column, target, ForeignKeyAction::SetNull);
        create(
            manager,
            table("pipelines")
                .col(big_integer("project_id"))
                .col(text("sha"))
                .col(text("ref_name"))
                .col(boolean("tag"))
                .col(text("source"))
                .col(text("status"))
                .col(big_integer_null("user_id"))
                .col(big_integer_null("trigger_id"))
                .col(big_integer_null("schedule_id"))
                .col(timestamp_with_time_zone_null("scheduled_for"))
                .col(double_null("coverage"))
                .col(timestamp_with_time_zone_null("started_at"))
                .col(timestamp_with_time_zone_null("finished_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut follows("pipelines", "project_id", "projects"))
                .foreign_key(&mut forgets("pipelines", "user_id", "users"))
                .foreign_key(&mut forgets("pipelines", "trigger_id", "pipeline_triggers"))
                .foreign_key(&mut forgets("pipelines", "schedule_id", "pipeline_schedules"))
                .check(one_of("pipelines", "status", &STATUSES))
                .check(one_of(
                    "pipelines",
                    "source",
                    &["api", "trigger", "schedule", "external"],
                )),
            [
                index("pipelines", &["project_id", "id"]),
                index("pipelines", &["project_id", "sha", "id"]),
                index("pipelines", &["project_id", "ref_name", "id"]),
                index("pipelines", &["project_id", "status", "id"]),
                index("pipelines", &["project_id", "updated_at", "id"]),
                index("pipelines", &["project_id", "user_id", "id"]),
                index("pipelines", &["user_id"]),
                index("pipelines", &["trigger_id"]),
                index("pipelines", &["schedule_id", "id"]),
                // A schedule runs once, even if several nodes find it due.
                unique("pipelines", &["schedule_id", "scheduled_for"]),
            ],
        )
        .await?;
        create(
            manager,
            table("pipeline_variables")
                .col(big_integer("pipeline_id"))
                .col(text("key"))
                .col(text("value_encrypted"))
                .col(text("kind"))
                .foreign_key(&mut follows("pipeline_variables", "pipeline_id", "pipelines"))
                .check(one_of("pipeline_variables", "kind", &["env_var", "file"])),
            [unique("pipeline_variables", &["pipeline_id", "key"])],
        )
        .await?;
        create(
            manager,
            table("ci_jobs")
                .col(big_integer("project_id"))
                .col(big_integer("pipeline_id"))
                .col(text("name"))
                .col(text("stage"))
                .col(text("status"))
                .col(text_null("description"))
                .col(text_null("target_url"))
                .col(double_null("coverage"))
                .col(boolean("allow_failure"))
                .col(boolean("retried"))
                .col(big_integer_null("user_id"))
                .col(timestamp_with_time_zone_null("started_at"))
                .col(timestamp_with_time_zone_null("finished_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut follows("ci_jobs", "project_id", "projects"))
                .foreign_key(&mut follows("ci_jobs", "pipeline_id", "pipelines"))
                .foreign_key(&mut forgets("ci_jobs", "user_id", "users"))
                .check(one_of("ci_jobs", "status", &STATUSES)),
            [
                index("ci_jobs", &["project_id", "id"]),
                index("ci_jobs", &["pipeline_id", "id"]),
                index("ci_jobs", &["user_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["pipelines", "pipeline_variables", "ci_jobs"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
