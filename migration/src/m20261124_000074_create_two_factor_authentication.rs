//! Second factors of users, sign-ins that wait for one, and the start of the period to set one up.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

/// The columns of `users`; SQLite changes one column per statement.
const COLUMNS: [&str; 2] = ["two_factor_enabled", "two_factor_grace_started_at"];

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let [enabled, started] = COLUMNS;
        for column in [
            boolean(enabled).default(false).take(),
            timestamp_with_time_zone_null(started).take(),
        ] {
            let change = Table::alter().table("users").add_column(column).to_owned();
            manager.alter_table(change).await?;
        }
        create(
            manager,
            table("two_factor_secrets")
                .col(big_integer("user_id"))
                .col(text("secret_encrypted"))
                .col(big_integer_null("last_used_step"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone_null("enabled_at"))
                .foreign_key(&mut of_user("two_factor_secrets")),
            [unique("two_factor_secrets", &["user_id"])],
        )
        .await?;
        create(
            manager,
            table("recovery_codes")
                .col(big_integer("user_id"))
                .col(text("digest"))
                .foreign_key(&mut of_user("recovery_codes")),
            [unique("recovery_codes", &["user_id", "digest"])],
        )
        .await?;
        create(
            manager,
            table("pending_sign_ins")
                .col(text("digest"))
                .col(big_integer("user_id"))
                .col(text_null("new_password_hash"))
                .col(timestamp_with_time_zone("expires_at"))
                .foreign_key(&mut of_user("pending_sign_ins")),
            [
                unique("pending_sign_ins", &["digest"]),
                index("pending_sign_ins", &["user_id"]),
                index("pending_sign_ins", &["expires_at"]),
            ],
        )
        .await?;
        // Few groups require a second factor, and requests with a session look for them.
        let required = index("namespaces", &["require_two_factor_authentication"]);
        manager.create_index(required).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let required = Index::drop()
            .name("ix_namespaces_require_two_factor_authentication")
            .table("namespaces")
            .to_owned();
        manager.drop_index(required).await?;
        drop(
            manager,
            &["two_factor_secrets", "recovery_codes", "pending_sign_ins"],
        )
        .await?;
        for column in COLUMNS {
            let change = Table::alter().table("users").drop_column(column).to_owned();
            manager.alter_table(change).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

fn of_user(table: &'static str) -> ForeignKeyCreateStatement {
    reference(table, "user_id", "users", ForeignKeyAction::Cascade)
}
