//! CI job tokens: each acts as one user on one project until a time.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let owner = |column, target| reference("job_tokens", column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table("job_tokens")
                .col(big_integer("user_id"))
                .col(big_integer("project_id"))
                .col(text("digest"))
                .col(timestamp_with_time_zone("expires_at"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut owner("user_id", "users"))
                .foreign_key(&mut owner("project_id", "projects")),
            [
                unique("job_tokens", &["digest"]),
                index("job_tokens", &["user_id"]),
                index("job_tokens", &["project_id"]),
                index("job_tokens", &["expires_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["job_tokens"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
