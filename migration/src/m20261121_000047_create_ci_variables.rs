//! CI/CD variables of the instance, projects and groups.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("ci_variables")
                // 1 or NULL, because unique indexes treat NULL values as distinct.
                .col(integer_null("instance"))
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(text("key"))
                .col(text("environment_scope"))
                .col(text("value_encrypted"))
                .col(text("kind"))
                .col(boolean("protected"))
                .col(boolean("masked"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "ci_variables",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "ci_variables",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Cascade,
                ))
                .check(exactly_one(
                    "ci_variables",
                    &["instance", "project_id", "namespace_id"],
                ))
                .check(one_of("ci_variables", "kind", &["env_var", "file"])),
            [
                unique("ci_variables", &["instance", "key", "environment_scope"]),
                unique("ci_variables", &["project_id", "key", "environment_scope"]),
                unique("ci_variables", &["namespace_id", "key", "environment_scope"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["ci_variables"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
