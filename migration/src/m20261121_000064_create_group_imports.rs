//! Imports of groups: their state, the data that could not be mapped, and the created groups.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let name = "group_imports";
        create(
            manager,
            table(name)
                // Null until the group is created, and after it is deleted: the row is needed to find the
                // remaining content.
                .col(big_integer_null("namespace_id"))
                .col(big_integer_null("user_id"))
                // Null when the archive is no longer needed.
                .col(text_null("secret"))
                .col(text("state"))
                .col(text_null("error"))
                .col(text("report"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
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
                ))
                .check(one_of(
                    name,
                    "state",
                    &["scheduled", "started", "finished", "failed"],
                )),
            [
                unique(name, &["namespace_id"]),
                unique(name, &["secret"]),
                index(name, &["user_id"]),
                // One running import for each user.
                unique(name, &["user_id"])
                    .and_where(
                        Expr::col("state")
                            .is_in(["scheduled", "started"])
                            .and(Expr::col("namespace_id").is_not_null()),
                    )
                    .to_owned(),
            ],
        )
        .await?;
        let name = "imported_groups";
        create(
            manager,
            table(name)
                .col(big_integer("import_id"))
                .col(big_integer("source_id"))
                .col(big_integer("namespace_id"))
                .col(timestamp_with_time_zone_null("entered_at"))
                .foreign_key(&mut reference(
                    name,
                    "import_id",
                    "group_imports",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    name,
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique(name, &["import_id", "source_id"]),
                index(name, &["namespace_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["group_imports", "imported_groups"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
