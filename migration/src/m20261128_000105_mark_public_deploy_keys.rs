//! Public deploy keys, which every project can use.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

const KEYS: &str = "deploy_keys";
const PUBLIC: &str = "is_public";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = boolean(PUBLIC).default(false).to_owned();
        let add = Table::alter().table(KEYS).add_column(column).to_owned();
        manager.alter_table(add).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Keys that no project uses exist only if they are public.
        let unused = Query::delete()
            .from_table(KEYS)
            .and_where(Expr::col(PUBLIC).eq(true))
            .and_where(
                Expr::col("id").not_in_subquery(
                    Query::select()
                        .column("deploy_key_id")
                        .from("project_deploy_keys")
                        .take(),
                ),
            )
            .to_owned();
        manager.get_connection().execute(&unused).await?;
        let remove = Table::alter().table(KEYS).drop_column(PUBLIC).to_owned();
        manager.alter_table(remove).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
