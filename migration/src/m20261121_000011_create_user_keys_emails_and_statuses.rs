//! SSH keys, secondary e-mail addresses and statuses of users.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

fn owner(table: &'static str) -> ForeignKeyCreateStatement {
    reference(table, "user_id", "users", ForeignKeyAction::Cascade)
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("user_keys")
                .col(big_integer("user_id"))
                .col(text("title"))
                .col(text("key"))
                .col(text("fingerprint"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut owner("user_keys")),
            [
                unique("user_keys", &["fingerprint"]),
                index("user_keys", &["user_id", "id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("user_emails")
                .col(big_integer("user_id"))
                .col(text("email"))
                .col(text("email_key"))
                .col(timestamp_with_time_zone_null("confirmed_at"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut owner("user_emails")),
            [
                unique("user_emails", &["email_key"]),
                index("user_emails", &["user_id", "id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("user_statuses")
                .col(big_integer("user_id"))
                .col(text("emoji"))
                .col(text("message"))
                .foreign_key(&mut owner("user_statuses")),
            [unique("user_statuses", &["user_id"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["user_keys", "user_emails", "user_statuses"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
