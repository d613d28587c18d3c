//! Pipeline triggers: tokens with which external systems start pipelines of a project.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let refers =
            |column, target| reference("pipeline_triggers", column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table("pipeline_triggers")
                .col(big_integer("project_id"))
                .col(big_integer("owner_id"))
                .col(text("description"))
                .col(text("digest"))
                .col(text("token_encrypted"))
                .col(text("beginning"))
                .col(timestamp_with_time_zone_null("last_used_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut refers("project_id", "projects"))
                .foreign_key(&mut refers("owner_id", "users")),
            [
                unique("pipeline_triggers", &["digest"]),
                index("pipeline_triggers", &["project_id", "id"]),
                index("pipeline_triggers", &["owner_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["pipeline_triggers"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
