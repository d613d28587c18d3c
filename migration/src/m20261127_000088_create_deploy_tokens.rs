//! Deploy tokens. Each belongs to exactly one project or group and to no user.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const TOKENS: &str = "deploy_tokens";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let owner = |column, target| reference(TOKENS, column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table(TOKENS)
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(text("name"))
                .col(text_null("username"))
                .col(text("digest"))
                .col(text("scopes"))
                .col(timestamp_with_time_zone_null("expires_at"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut owner("project_id", "projects"))
                .foreign_key(&mut owner("namespace_id", "namespaces"))
                .check(exactly_one(TOKENS, &["project_id", "namespace_id"])),
            [
                unique(TOKENS, &["digest"]),
                index(TOKENS, &["project_id"]),
                index(TOKENS, &["namespace_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[TOKENS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
