//! Instance IDs with which SDKs read the feature flags of a project.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const CLIENTS: &str = "feature_flags_clients";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(CLIENTS)
                .col(big_integer("project_id"))
                .col(text("digest"))
                .col(text("instance_id_encrypted"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    CLIENTS,
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [unique(CLIENTS, &["project_id"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[CLIENTS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
