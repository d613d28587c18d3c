//! Archives of exported groups (specification 3.8): what is known of each, beside the object storage that holds its bytes.

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
                // Null once the group is gone: the row is what leads to the bytes that are left.
                .col(big_integer_null("namespace_id"))
                // Whose archive it is: it may tell what only they may know. Null once the user is gone.
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
