//! Webhooks of projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("project_hooks")
                .col(big_integer("project_id"))
                .col(text("url"))
                .col(text_null("password_encrypted"))
                .col(text_null("token_encrypted"))
                .col(boolean("push_events").default(true))
                .col(text_null("push_events_branch_filter"))
                .col(boolean("tag_push_events").default(false))
                .col(boolean("issues_events").default(false))
                .col(boolean("confidential_issues_events").default(false))
                .col(boolean("merge_requests_events").default(false))
                .col(boolean("note_events").default(false))
                .col(boolean("confidential_note_events").default(false))
                .col(boolean("job_events").default(false))
                .col(boolean("pipeline_events").default(false))
                .col(boolean("wiki_page_events").default(false))
                .col(boolean("enable_ssl_verification").default(true))
                .col(integer("failures").default(0))
                .col(timestamp_with_time_zone_null("failing_since"))
                .col(timestamp_with_time_zone_null("disabled_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "project_hooks",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [index("project_hooks", &["project_id", "id"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["project_hooks"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
