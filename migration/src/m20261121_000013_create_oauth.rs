//! OAuth applications, authorization codes and tokens.
//!
//! A code and all its tokens form a family: if a code or refresh token is used twice, all of them are revoked.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

fn part(table: &'static str, column: &'static str, target: &'static str) -> ForeignKeyCreateStatement {
    reference(table, column, target, ForeignKeyAction::Cascade)
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("oauth_applications")
                .col(text("uid"))
                .col(text("secret_digest"))
                .col(text("name"))
                .col(text("redirect_uri"))
                .col(text("scopes"))
                .col(boolean("confidential"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at")),
            [unique("oauth_applications", &["uid"])],
        )
        .await?;
        create(
            manager,
            table("oauth_grants")
                .col(big_integer("application_id"))
                .col(big_integer("user_id"))
                .col(text("family"))
                .col(text("digest"))
                .col(text("redirect_uri"))
                .col(text("scopes"))
                .col(text_null("code_challenge"))
                .col(text_null("code_challenge_method"))
                .col(timestamp_with_time_zone_null("used_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("expires_at"))
                .foreign_key(&mut part("oauth_grants", "application_id", "oauth_applications"))
                .foreign_key(&mut part("oauth_grants", "user_id", "users"))
                .check(one_of(
                    "oauth_grants",
                    "code_challenge_method",
                    &["S256", "plain"],
                )),
            [
                unique("oauth_grants", &["digest"]),
                index("oauth_grants", &["application_id"]),
                index("oauth_grants", &["user_id"]),
                index("oauth_grants", &["expires_at"]),
            ],
        )
        .await?;
        create(
            manager,
            table("oauth_tokens")
                .col(big_integer("application_id"))
                .col(big_integer("user_id"))
                .col(text("family"))
                .col(text("digest"))
                .col(text("refresh_digest"))
                .col(text("scopes"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("expires_at"))
                .col(timestamp_with_time_zone_null("revoked_at"))
                .foreign_key(&mut part("oauth_tokens", "application_id", "oauth_applications"))
                .foreign_key(&mut part("oauth_tokens", "user_id", "users")),
            [
                unique("oauth_tokens", &["digest"]),
                unique("oauth_tokens", &["refresh_digest"]),
                index("oauth_tokens", &["application_id"]),
                index("oauth_tokens", &["user_id"]),
                index("oauth_tokens", &["family"]),
                index("oauth_tokens", &["revoked_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["oauth_applications", "oauth_grants", "oauth_tokens"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
