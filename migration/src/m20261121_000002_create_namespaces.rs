//! Namespaces (groups and personal namespaces of users) and the closure table of their tree.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("namespaces")
                .col(text("kind"))
                .col(big_integer_null("parent_id"))
                .col(big_integer_null("owner_id"))
                .col(text("name"))
                .col(text("name_key"))
                .col(text("path"))
                .col(text("full_path"))
                .col(text("full_path_key"))
                .col(text("description").default(""))
                .col(text("visibility"))
                .col(text_null("avatar"))
                .col(boolean("share_with_group_lock").default(false))
                .col(boolean("membership_lock").default(false))
                .col(boolean("require_two_factor_authentication").default(false))
                .col(integer("two_factor_grace_period").default(48))
                .col(text("project_creation_level").default("developer"))
                .col(text("subgroup_creation_level").default("maintainer"))
                .col(boolean_null("auto_devops_enabled"))
                .col(boolean_null("emails_disabled"))
                .col(boolean_null("mentions_disabled"))
                .col(boolean("lfs_enabled").default(true))
                .col(integer("default_branch_protection").default(2))
                .col(boolean("request_access_enabled").default(true))
                .col(text_null("ldap_cn"))
                .col(integer_null("ldap_access"))
                .col(integer_null("shared_runners_minutes_limit"))
                .col(integer_null("extra_shared_runners_minutes_limit"))
                // No foreign key, because the table of projects is created later and refers to this one.
                .col(big_integer_null("file_template_project_id"))
                .col(text_null("runners_token_encrypted"))
                .col(date_null("marked_for_deletion_on"))
                .col(timestamp_with_time_zone_null("deletion_started_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "namespaces",
                    "parent_id",
                    "namespaces",
                    ForeignKeyAction::Restrict,
                ))
                .foreign_key(&mut reference(
                    "namespaces",
                    "owner_id",
                    "users",
                    ForeignKeyAction::Restrict,
                ))
                .check(one_of("namespaces", "kind", &["user", "group"]))
                .check(one_of(
                    "namespaces",
                    "visibility",
                    &["private", "internal", "public"],
                ))
                .check(one_of(
                    "namespaces",
                    "project_creation_level",
                    &["noone", "maintainer", "developer"],
                ))
                .check(one_of(
                    "namespaces",
                    "subgroup_creation_level",
                    &["owner", "maintainer"],
                ))
                .check(Check::named(
                    "ck_namespaces_owner",
                    // A personal namespace has an owner and no parent; a group has no owner.
                    Expr::col("kind")
                        .eq("user")
                        .and(Expr::col("owner_id").is_not_null())
                        .and(Expr::col("parent_id").is_null())
                        .or(Expr::col("kind").eq("group").and(Expr::col("owner_id").is_null())),
                )),
            [
                unique("namespaces", &["full_path_key"]),
                unique("namespaces", &["owner_id"]),
                unique("namespaces", &["parent_id", "name_key"]),
                // NULL parents are distinct in the index above, so top-level groups have a separate index.
                unique("namespaces", &["name_key"])
                    .and_where(
                        Expr::col("parent_id")
                            .is_null()
                            .and(Expr::col("kind").eq("group")),
                    )
                    .to_owned(),
            ],
        )
        .await?;
        create(
            manager,
            table("namespace_ancestors")
                .col(big_integer("namespace_id"))
                .col(big_integer("ancestor_id"))
                .col(integer("depth"))
                .foreign_key(&mut reference(
                    "namespace_ancestors",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "namespace_ancestors",
                    "ancestor_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("namespace_ancestors", &["namespace_id", "ancestor_id"]),
                index("namespace_ancestors", &["ancestor_id", "namespace_id"]),
            ],
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["namespaces", "namespace_ancestors"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
