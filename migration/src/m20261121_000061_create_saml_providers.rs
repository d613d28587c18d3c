//! Single sign-on settings of groups, and SCIM tokens of their identity providers.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{access_level, create, drop, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let group = &mut reference(
            "saml_providers",
            "namespace_id",
            "namespaces",
            ForeignKeyAction::Cascade,
        );
        create(
            manager,
            table("saml_providers")
                .col(big_integer("namespace_id"))
                .col(boolean("enabled"))
                .col(integer("default_membership_role"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(group)
                .check(access_level("saml_providers", "default_membership_role")),
            [unique("saml_providers", &["namespace_id"])],
        )
        .await?;
        let provider = &mut reference(
            "scim_tokens",
            "saml_provider_id",
            "saml_providers",
            ForeignKeyAction::Cascade,
        );
        create(
            manager,
            table("scim_tokens")
                .col(big_integer("saml_provider_id"))
                .col(text("digest"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(provider),
            [
                unique("scim_tokens", &["saml_provider_id"]),
                unique("scim_tokens", &["digest"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["saml_providers", "scim_tokens"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
