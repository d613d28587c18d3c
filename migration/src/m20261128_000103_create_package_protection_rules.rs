//! Rules of projects about the callers that can upload and delete packages.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const RULES: &str = "package_protection_rules";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        const TYPES: &[&str] = &["generic", "npm", "pypi", "cargo"];
        const LEVELS: &[&str] = &["maintainer", "owner", "admin"];
        create(
            manager,
            table(RULES)
                .col(big_integer("project_id"))
                .col(text("package_type"))
                .col(text("name_pattern"))
                .col(text_null("push_level"))
                .col(text_null("delete_level"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    RULES,
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .check(one_of(RULES, "package_type", TYPES))
                .check(one_of(RULES, "push_level", LEVELS))
                .check(one_of(RULES, "delete_level", LEVELS)),
            [unique(RULES, &["project_id", "package_type", "name_pattern"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[RULES]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
