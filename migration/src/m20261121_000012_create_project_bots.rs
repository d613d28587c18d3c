//! Bot users of project access tokens; each belongs to one project.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("project_bots")
                .col(big_integer("project_id"))
                .col(big_integer("user_id"))
                .foreign_key(&mut reference(
                    "project_bots",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "project_bots",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("project_bots", &["user_id"]),
                index("project_bots", &["project_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["project_bots"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
