//! Members of groups and projects, and shares with groups.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{access_level, create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("members")
                .col(big_integer("user_id"))
                .col(big_integer_null("namespace_id"))
                .col(big_integer_null("project_id"))
                .col(integer("access_level"))
                .col(date_null("expires_at"))
                .col(boolean("ldap").default(false))
                .col(boolean("override").default(false))
                .col(big_integer_null("created_by_id"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "members",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "members",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "members",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "members",
                    "created_by_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(access_level("members", "access_level"))
                .check(Check::named(
                    "ck_members_source",
                    Expr::col("namespace_id")
                        .is_null()
                        .ne(Expr::col("project_id").is_null()),
                )),
            [
                unique("members", &["user_id", "namespace_id"]),
                unique("members", &["user_id", "project_id"]),
                index("members", &["namespace_id", "id"]),
                index("members", &["project_id", "id"]),
                index("members", &["created_by_id"]),
                index("members", &["expires_at"]),
            ],
        )
        .await?;
        create(
            manager,
            table("group_shares")
                .col(big_integer("namespace_id"))
                .col(big_integer("with_group_id"))
                .col(integer("access_level"))
                .col(date_null("expires_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "group_shares",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "group_shares",
                    "with_group_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .check(access_level("group_shares", "access_level"))
                .check(Check::named(
                    "ck_group_shares_self",
                    Expr::col("namespace_id").ne(Expr::col("with_group_id")),
                )),
            [
                unique("group_shares", &["namespace_id", "with_group_id"]),
                index("group_shares", &["with_group_id"]),
                index("group_shares", &["expires_at"]),
            ],
        )
        .await?;
        create(
            manager,
            table("project_shares")
                .col(big_integer("project_id"))
                .col(big_integer("group_id"))
                .col(integer("access_level"))
                .col(date_null("expires_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "project_shares",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "project_shares",
                    "group_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .check(access_level("project_shares", "access_level")),
            [
                unique("project_shares", &["project_id", "group_id"]),
                index("project_shares", &["group_id"]),
                index("project_shares", &["expires_at"]),
            ],
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["members", "group_shares", "project_shares"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
