//! Protected branches, by name or pattern.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("protected_branches")
                .col(big_integer("project_id"))
                .col(text("name"))
                .col(integer("push_access_level"))
                .col(integer("merge_access_level"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "protected_branches",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .check(Check::named(
                    "ck_protected_branches_levels",
                    // 0 means no access.
                    Expr::col("push_access_level")
                        .is_in([0, 30, 40, 60])
                        .and(Expr::col("merge_access_level").is_in([0, 30, 40, 60])),
                )),
            [unique("protected_branches", &["project_id", "name"])],
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["protected_branches"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
