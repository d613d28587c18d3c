//! External status checks of projects: services that decide whether a merge request can be merged.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const CHECKS: &str = "status_checks";
const BRANCHES: &str = "status_check_branches";
const RESPONSES: &str = "status_check_responses";
const DELIVERIES: &str = "status_check_deliveries";

/// The setting of projects that requires the checks.
const SETTING: &str = "only_allow_merge_if_all_status_checks_passed";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = boolean(SETTING).default(false).to_owned();
        let add = Table::alter().table("projects").add_column(column).to_owned();
        manager.alter_table(add).await?;
        let cascade = |table, column, target| reference(table, column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table(CHECKS)
                .col(big_integer("project_id"))
                .col(text("name"))
                .col(text("external_url"))
                .col(text_null("shared_secret_encrypted"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut cascade(CHECKS, "project_id", "projects")),
            [
                unique(CHECKS, &["project_id", "name"]),
                unique(CHECKS, &["project_id", "external_url"]),
            ],
        )
        .await?;
        create(
            manager,
            table(BRANCHES)
                .col(big_integer("status_check_id"))
                .col(big_integer("protected_branch_id"))
                .foreign_key(&mut cascade(BRANCHES, "status_check_id", CHECKS))
                .foreign_key(&mut cascade(
                    BRANCHES,
                    "protected_branch_id",
                    "protected_branches",
                )),
            [
                unique(BRANCHES, &["status_check_id", "protected_branch_id"]),
                index(BRANCHES, &["protected_branch_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table(RESPONSES)
                .col(big_integer("merge_request_id"))
                .col(big_integer("status_check_id"))
                .col(text("sha"))
                .col(text("status"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut cascade(RESPONSES, "merge_request_id", "merge_requests"))
                .foreign_key(&mut cascade(RESPONSES, "status_check_id", CHECKS))
                .check(one_of(RESPONSES, "status", &["pending", "passed", "failed"])),
            [
                unique(RESPONSES, &["merge_request_id", "status_check_id"]),
                index(RESPONSES, &["status_check_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table(DELIVERIES)
                .col(big_integer("status_check_id"))
                .col(big_integer("merge_request_id"))
                .col(big_integer("event_id"))
                .col(text("sha"))
                .col(text("uuid"))
                .col(integer("attempts").default(0))
                .col(timestamp_with_time_zone("next_attempt_at"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut cascade(DELIVERIES, "status_check_id", CHECKS))
                .foreign_key(&mut cascade(DELIVERIES, "merge_request_id", "merge_requests"))
                .foreign_key(&mut cascade(DELIVERIES, "event_id", "events")),
            [
                index(DELIVERIES, &["status_check_id", "id"]),
                index(DELIVERIES, &["merge_request_id"]),
                index(DELIVERIES, &["event_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[CHECKS, BRANCHES, RESPONSES, DELIVERIES]).await?;
        let remove = Table::alter().table("projects").drop_column(SETTING).to_owned();
        manager.alter_table(remove).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
