//! Vulnerabilities of projects from scanner reports. Each exists once, by its fingerprint.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let name = "vulnerabilities";
        let user = |column| reference(name, column, "users", ForeignKeyAction::SetNull);
        let project = &mut reference(name, "project_id", "projects", ForeignKeyAction::Cascade);
        create(
            manager,
            table(name)
                .col(big_integer("project_id"))
                .col(text("fingerprint"))
                .col(text("title"))
                .col(text_null("description"))
                .col(text("text_digest"))
                .col(text("state"))
                .col(text("severity"))
                .col(text("confidence"))
                .col(text("report_type"))
                .col(big_integer_null("author_id"))
                .col(big_integer_null("updated_by_id"))
                .col(big_integer_null("last_edited_by_id"))
                .col(big_integer_null("closed_by_id"))
                .col(date_null("start_date"))
                .col(date_null("due_date"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .col(timestamp_with_time_zone_null("last_edited_at"))
                .col(timestamp_with_time_zone_null("closed_at"))
                .foreign_key(project)
                .foreign_key(&mut user("author_id"))
                .foreign_key(&mut user("updated_by_id"))
                .foreign_key(&mut user("last_edited_by_id"))
                .foreign_key(&mut user("closed_by_id"))
                .check(one_of(
                    name,
                    "state",
                    &["opened", "confirmed", "resolved", "closed"],
                ))
                .check(one_of(
                    name,
                    "severity",
                    &["info", "unknown", "low", "medium", "high", "critical"],
                ))
                .check(one_of(
                    name,
                    "confidence",
                    &[
                        "ignore",
                        "unknown",
                        "experimental",
                        "low",
                        "medium",
                        "high",
                        "confirmed",
                    ],
                ))
                .check(one_of(
                    name,
                    "report_type",
                    &[
                        "sast",
                        "dependency_scanning",
                        "container_scanning",
                        "dast",
                        "secret_detection",
                        "coverage_fuzzing",
                        "api_fuzzing",
                        "cluster_image_scanning",
                        "generic",
                    ],
                )),
            [
                unique(name, &["project_id", "fingerprint"]),
                // Lists are ordered by ID with every filter.
                index(name, &["project_id", "id"]),
                index(name, &["project_id", "state", "id"]),
                index(name, &["project_id", "severity", "id"]),
                index(name, &["project_id", "report_type", "id"]),
                // Deleting a user searches these columns.
                index(name, &["author_id"]),
                index(name, &["updated_by_id"]),
                index(name, &["last_edited_by_id"]),
                index(name, &["closed_by_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["vulnerabilities"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
