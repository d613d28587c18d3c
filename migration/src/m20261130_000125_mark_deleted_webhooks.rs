//! Mark of webhooks that are being deleted.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLE: &str = "project_hooks";
const COLUMN: &str = "deletion_started_at";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = timestamp_with_time_zone_null(COLUMN);
        let add = Table::alter().table(TABLE).add_column(column).to_owned();
        manager.alter_table(add).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let marked = Query::delete()
            .from_table(TABLE)
            .and_where(Expr::col(COLUMN).is_not_null())
            .to_owned();
        manager.get_connection().execute(&marked).await?;
        let remove = Table::alter().table(TABLE).drop_column(COLUMN).to_owned();
        manager.alter_table(remove).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
