//! Folded copies of epic texts for searching and sorting. No epics could be created before, so there are no
//! texts to fold.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{text, text_null};
use sea_orm_migration::sea_orm::DatabaseBackend;

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in [
            text("title_key").default("").to_owned(),
            text_null("description_key"),
        ] {
            let add = Table::alter().table("epics").add_column(column).to_owned();
            manager.alter_table(add).await?;
        }
        if manager.get_database_backend() == DatabaseBackend::Postgres {
            // By code points, like SQLite.
            let alter = "ALTER TABLE epics ALTER COLUMN title_key TYPE text COLLATE \"C\"";
            manager.get_connection().execute_unprepared(alter).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["title_key", "description_key"] {
            let drop = Table::alter().table("epics").drop_column(column).to_owned();
            manager.alter_table(drop).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
