//! Access levels of environments, feature flags, clusters, metrics dashboards and vulnerabilities of projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::one_of;

#[derive(DeriveMigrationName)]
pub struct Migration;

const PROJECTS: &str = "projects";
/// The columns with their defaults.
const COLUMNS: [(&str, &str); 5] = [
    ("environments_access_level", "enabled"),
    ("feature_flags_access_level", "enabled"),
    ("infrastructure_access_level", "enabled"),
    ("monitor_access_level", "enabled"),
    ("security_and_compliance_access_level", "private"),
];
const LEVELS: &[&str] = &["enabled", "private", "disabled"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, default) in COLUMNS {
            let column = text(name)
                .default(default)
                .check(one_of(PROJECTS, name, LEVELS))
                .to_owned();
            let add = Table::alter().table(PROJECTS).add_column(column).to_owned();
            manager.alter_table(add).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, _) in COLUMNS.into_iter().rev() {
            let remove = Table::alter().table(PROJECTS).drop_column(name).to_owned();
            manager.alter_table(remove).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
