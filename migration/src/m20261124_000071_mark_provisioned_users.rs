//! A mark for users whose account the identity provider of a group created. Their addresses become unconfirmed,
//! because every Owner of a top-level group could confirm any address before. `admin group-domain add` confirms
//! them again.
//!
//! Accounts of deleted groups, and of users who left their group, have no identity any more. They are not
//! recognized, so their addresses stay confirmed.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mark = Table::alter()
            .table("users")
            .add_column(boolean("provisioned").default(false))
            .to_owned();
        manager.alter_table(mark).await?;
        let provisioned = Query::select()
            .column("user_id")
            .from("scim_identities")
            .to_owned();
        let update = Query::update()
            .table("users")
            .value("provisioned", true)
            .value("confirmed_at", Expr::null())
            .and_where(Expr::col("id").in_subquery(provisioned))
            .to_owned();
        manager.get_connection().execute(&update).await?;
        Ok(())
    }

    /// Former versions confirm the address of every provisioned account.
    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let update = Query::update()
            .table("users")
            .value("confirmed_at", Expr::col("updated_at"))
            .and_where(Expr::col("provisioned").eq(true))
            .and_where(Expr::col("confirmed_at").is_null())
            .to_owned();
        manager.get_connection().execute(&update).await?;
        let mark = Table::alter()
            .table("users")
            .drop_column("provisioned")
            .to_owned();
        manager.alter_table(mark).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
