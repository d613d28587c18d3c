//! Metadata of group export archives; their content is in the object storage.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let name = "group_exports";
        create(
            manager,
            table(name)
                // Null after the group is deleted: the row is needed to find the remaining content.
                .col(big_integer_null("namespace_id"))
                // The user who requested the archive, which may contain data that only this user can see.
                // Null after the user is deleted.
                .col(big_integer_null("user_id"))
                .col(text("secret"))
                .col(text("file_name"))
                .col(big_integer("size").default(0))
                .col(timestamp_with_time_zone_null("stored_at"))
                .col(timestamp_with_time_zone("expires_at"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    name,
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    name,
                    "user_id",
                    "users",
                    ForeignKeyAction::SetNull,
                )),
            [
                unique(name, &["secret"]),
                index(name, &["namespace_id", "id"]),
                index(name, &["user_id"]),
                index(name, &["expires_at"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["group_exports"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
