//! Starred metrics dashboards, and annotations for environments and clusters. The tables of those two contain
//! only the columns needed for that.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let refers = |table, column, target| reference(table, column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table("starred_dashboards")
                .col(big_integer("user_id"))
                .col(big_integer("project_id"))
                .col(text("dashboard_path"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut refers("starred_dashboards", "user_id", "users"))
                .foreign_key(&mut refers("starred_dashboards", "project_id", "projects")),
            [
                unique("starred_dashboards", &["user_id", "project_id", "dashboard_path"]),
                index("starred_dashboards", &["project_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("environments")
                .col(big_integer("project_id"))
                .col(text("name"))
                .col(text("slug"))
                .col(text_null("external_url"))
                .col(text("state"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut refers("environments", "project_id", "projects"))
                .check(one_of("environments", "state", &["available", "stopped"])),
            [
                unique("environments", &["project_id", "name"]),
                unique("environments", &["project_id", "slug"]),
            ],
        )
        .await?;
        create(
            manager,
            table("clusters")
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(text("name"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut refers("clusters", "project_id", "projects"))
                .foreign_key(&mut refers("clusters", "namespace_id", "namespaces"))
                .check(exactly_one("clusters", &["project_id", "namespace_id"])),
            [
                index("clusters", &["project_id"]),
                index("clusters", &["namespace_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("metrics_annotations")
                .col(big_integer_null("environment_id"))
                .col(big_integer_null("cluster_id"))
                .col(text("dashboard_path"))
                .col(text("description"))
                .col(timestamp_with_time_zone("starting_at"))
                .col(timestamp_with_time_zone_null("ending_at"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut refers(
                    "metrics_annotations",
                    "environment_id",
                    "environments",
                ))
                .foreign_key(&mut refers("metrics_annotations", "cluster_id", "clusters"))
                .check(exactly_one(
                    "metrics_annotations",
                    &["environment_id", "cluster_id"],
                )),
            [
                index("metrics_annotations", &["environment_id"]),
                index("metrics_annotations", &["cluster_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(
            manager,
            &[
                "starred_dashboards",
                "environments",
                "clusters",
                "metrics_annotations",
            ],
        )
        .await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
