//! Deployments of projects to environments, with IIDs within the project, and their merge requests.

use sea_orm_migration::sea_orm::DatabaseBackend;
use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const COUNTERS: &str = "iid_counters";
/// Kinds of resources with IIDs before.
const BEFORE: [&str; 5] = [
    "issues",
    "merge_requests",
    "milestones",
    "epics",
    "feature_flag_user_lists",
];
/// Kinds of resources with IIDs from now on.
const AFTER: [&str; 6] = [
    "issues",
    "merge_requests",
    "milestones",
    "epics",
    "feature_flag_user_lists",
    "deployments",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let follows = |table, column, target| reference(table, column, target, ForeignKeyAction::Cascade);
        let forgets = |table, column, target| reference(table, column, target, ForeignKeyAction::SetNull);
        count(manager, &AFTER).await?;
        create(
            manager,
            table("deployments")
                .col(big_integer("project_id"))
                .col(big_integer("environment_id"))
                .col(big_integer("iid"))
                .col(text("ref_name"))
                .col(text("sha"))
                .col(boolean("tag"))
                .col(text("status"))
                .col(big_integer_null("user_id"))
                .col(big_integer_null("job_id"))
                .col(timestamp_with_time_zone_null("finished_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut follows("deployments", "project_id", "projects"))
                .foreign_key(&mut follows("deployments", "environment_id", "environments"))
                .foreign_key(&mut forgets("deployments", "user_id", "users"))
                .foreign_key(&mut forgets("deployments", "job_id", "ci_jobs"))
                .check(one_of(
                    "deployments",
                    "status",
                    &["created", "running", "success", "failed", "canceled"],
                )),
            [
                unique("deployments", &["project_id", "iid"]),
                index("deployments", &["project_id", "id"]),
                index("deployments", &["project_id", "created_at", "id"]),
                index("deployments", &["project_id", "updated_at", "id"]),
                index("deployments", &["project_id", "ref_name", "id"]),
                index("deployments", &["project_id", "status", "id"]),
                index("deployments", &["environment_id", "id"]),
                index("deployments", &["environment_id", "status", "id"]),
                index("deployments", &["user_id"]),
                unique("deployments", &["job_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("deployment_merge_requests")
                .col(big_integer("deployment_id"))
                .col(big_integer("environment_id"))
                .col(big_integer("merge_request_id"))
                .foreign_key(&mut follows(
                    "deployment_merge_requests",
                    "deployment_id",
                    "deployments",
                ))
                .foreign_key(&mut follows(
                    "deployment_merge_requests",
                    "environment_id",
                    "environments",
                ))
                .foreign_key(&mut follows(
                    "deployment_merge_requests",
                    "merge_request_id",
                    "merge_requests",
                )),
            [
                // A merge request is linked to only one deployment of an environment.
                unique(
                    "deployment_merge_requests",
                    &["environment_id", "merge_request_id"],
                ),
                index(
                    "deployment_merge_requests",
                    &["deployment_id", "merge_request_id"],
                ),
                index("deployment_merge_requests", &["merge_request_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["deployments", "deployment_merge_requests"]).await?;
        let ours = Query::delete()
            .from_table(COUNTERS)
            .and_where(Expr::col("subject").is_not_in(BEFORE))
            .take();
        manager.get_connection().execute(&ours).await?;
        count(manager, &BEFORE).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Sets the allowed kinds of resources. SQLite cannot alter checks, so it recreates the table.
async fn count(manager: &SchemaManager<'_>, subjects: &[&'static str]) -> Result<(), DbErr> {
    let db = manager.get_connection();
    if manager.get_database_backend() == DatabaseBackend::Postgres {
        let subjects = subjects.join("', '");
        let sql = format!(
            "ALTER TABLE iid_counters DROP CONSTRAINT ck_iid_counters_subject, \
             ADD CONSTRAINT ck_iid_counters_subject CHECK (subject IN ('{subjects}'))"
        );
        db.execute_unprepared(&sql).await?;
        return Ok(());
    }
    let refers = |column, target| reference(COUNTERS, column, target, ForeignKeyAction::Cascade);
    let mut made = table("iid_counters_new")
        .col(big_integer_null("project_id"))
        .col(big_integer_null("namespace_id"))
        .col(text("subject"))
        .col(big_integer("last"))
        .foreign_key(&mut refers("project_id", "projects"))
        .foreign_key(&mut refers("namespace_id", "namespaces"))
        .check(exactly_one(COUNTERS, &["project_id", "namespace_id"]))
        .check(one_of(COUNTERS, "subject", subjects))
        .take();
    manager.create_table(made.take()).await?;
    let columns = "id, project_id, namespace_id, subject, last";
    db.execute_unprepared(&format!(
        "INSERT INTO iid_counters_new ({columns}) SELECT {columns} FROM iid_counters"
    ))
    .await?;
    drop(manager, &[COUNTERS]).await?;
    let rename = Table::rename().table("iid_counters_new", COUNTERS).to_owned();
    manager.rename_table(rename).await?;
    for columns in [["project_id", "subject"], ["namespace_id", "subject"]] {
        manager.create_index(unique(COUNTERS, &columns)).await?;
    }
    Ok(())
}
