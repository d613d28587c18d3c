//! Branches and tags as they were in the repositories from which projects fetch them.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const REFS: &str = "pull_mirror_refs";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table(REFS)
                .col(big_integer("mirror_id"))
                .col(text("name"))
                .col(text("target"))
                .foreign_key(&mut reference(
                    REFS,
                    "mirror_id",
                    "pull_mirrors",
                    ForeignKeyAction::Cascade,
                )),
            [unique(REFS, &["mirror_id", "name"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[REFS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
