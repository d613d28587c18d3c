//! Users that the identity providers of groups provision. Formerly provisioned accounts stay in the table with
//! their former ID, so that they are recognized if they are provisioned again.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let refers = |column, target| reference("scim_identities", column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table("scim_identities")
                .col(big_integer("saml_provider_id"))
                .col(big_integer("user_id"))
                .col(text_null("extern_uid"))
                .col(text_null("extern_uid_key"))
                .col(text_null("former_uid_key"))
                .col(text("user_name_key"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut refers("saml_provider_id", "saml_providers"))
                .foreign_key(&mut refers("user_id", "users")),
            [
                unique("scim_identities", &["saml_provider_id", "user_id"]),
                unique("scim_identities", &["saml_provider_id", "extern_uid_key"]),
                index("scim_identities", &["saml_provider_id", "user_name_key"]),
                // Lists are ordered by ID.
                index("scim_identities", &["saml_provider_id", "id"]),
                index("scim_identities", &["user_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["scim_identities"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
