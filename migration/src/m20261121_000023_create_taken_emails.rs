//! All e-mail addresses of users, primary and secondary: one row for each address, so that the database
//! prevents two users from having the same.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("taken_emails")
                .col(text("email_key"))
                .col(big_integer("user_id"))
                .foreign_key(&mut reference(
                    "taken_emails",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("taken_emails", &["email_key"]),
                index("taken_emails", &["user_id"]),
            ],
        )
        .await?;
        // If two users have the same address, the user with the primary address keeps it.
        for source in ["users", "user_emails"] {
            let owner = if source == "users" { "id" } else { "user_id" };
            let held = Query::select()
                .column("email_key")
                .column(owner)
                .from(source)
                .order_by("id", Order::Asc)
                .to_owned();
            let mut taken = Query::insert();
            taken
                .into_table("taken_emails")
                .columns(["email_key", "user_id"])
                .select_from(held)
                .map_err(|error| DbErr::Custom(error.to_string()))?
                .on_conflict(OnConflict::column("email_key").do_nothing().to_owned());
            manager.get_connection().execute(&taken).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["taken_emails"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
