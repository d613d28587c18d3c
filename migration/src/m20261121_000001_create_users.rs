//! Users, their tokens and sign-in sessions.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("users")
                .col(text("username"))
                .col(text("username_key"))
                .col(text("name"))
                .col(text("email"))
                .col(text("email_key"))
                .col(text_null("password_hash"))
                .col(boolean("admin").default(false))
                .col(text("state").default("active"))
                .col(boolean("bot").default(false))
                .col(boolean("external").default(false))
                .col(boolean("private_profile").default(false))
                .col(integer("projects_limit").default(100000))
                .col(boolean("can_create_group").default(true))
                .col(text_null("bio"))
                .col(text_null("location"))
                .col(text_null("public_email"))
                .col(text("skype").default(""))
                .col(text("linkedin").default(""))
                .col(text("twitter").default(""))
                .col(text("website_url").default(""))
                .col(text_null("organization"))
                .col(text_null("job_title"))
                .col(text_null("avatar"))
                .col(integer("theme_id").default(1))
                .col(integer("color_scheme_id").default(1))
                .col(text_null("note"))
                .col(boolean("password_change_required").default(false))
                .col(timestamp_with_time_zone_null("confirmed_at"))
                .col(timestamp_with_time_zone_null("last_sign_in_at"))
                .col(timestamp_with_time_zone_null("current_sign_in_at"))
                .col(date_null("last_activity_on"))
                .col(big_integer_null("created_by_id"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "users",
                    "created_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(one_of(
                    "users",
                    "state",
                    &["active", "blocked", "deactivated", "ldap_blocked"],
                )),
            [
                unique("users", &["username_key"]),
                unique("users", &["email_key"]),
                index("users", &["created_by_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("access_tokens")
                .col(big_integer("user_id"))
                .col(text("name"))
                .col(text("kind"))
                .col(text("digest"))
                .col(text("scopes"))
                .col(boolean("revoked").default(false))
                .col(date_null("expires_at"))
                .col(timestamp_with_time_zone_null("last_used_at"))
                .col(big_integer_null("created_by_id"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    "access_tokens",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "access_tokens",
                    "created_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(one_of(
                    "access_tokens",
                    "kind",
                    &["personal", "impersonation", "project"],
                )),
            [
                unique("access_tokens", &["digest"]),
                index("access_tokens", &["user_id", "kind"]),
                index("access_tokens", &["created_by_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("sessions")
                .col(text("digest"))
                .col(big_integer("user_id"))
                .col(text("csrf_seed"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("expires_at"))
                .col(timestamp_with_time_zone("last_seen_at"))
                .foreign_key(&mut reference(
                    "sessions",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("sessions", &["digest"]),
                index("sessions", &["user_id"]),
                index("sessions", &["expires_at"]),
            ],
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["users", "access_tokens", "sessions"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
