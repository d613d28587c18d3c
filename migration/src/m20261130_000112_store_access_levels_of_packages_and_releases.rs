//! Access levels of packages and releases of projects. The level of packages replaces the flag that enabled them.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::one_of;

#[derive(DeriveMigrationName)]
pub struct Migration;

const PROJECTS: &str = "projects";
const PACKAGES: &str = "package_registry_access_level";
const RELEASES: &str = "releases_access_level";
const PACKAGES_ENABLED: &str = "packages_enabled";
const LEVELS: &[&str] = &["enabled", "private", "disabled"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for name in [PACKAGES, RELEASES] {
            let column = text(name)
                .default("enabled")
                .check(one_of(PROJECTS, name, LEVELS))
                .to_owned();
            let add = Table::alter().table(PROJECTS).add_column(column).to_owned();
            manager.alter_table(add).await?;
        }
        let update = Query::update()
            .table(PROJECTS)
            .value(PACKAGES, "disabled")
            .and_where(Expr::col(PACKAGES_ENABLED).eq(false))
            .to_owned();
        manager.get_connection().execute(&update).await?;
        remove(manager, PACKAGES_ENABLED).await
    }

    /// Former versions have no packages for members only. Such packages become unavailable instead of public.
    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = boolean(PACKAGES_ENABLED).default(true).to_owned();
        let add = Table::alter().table(PROJECTS).add_column(column).to_owned();
        manager.alter_table(add).await?;
        let update = Query::update()
            .table(PROJECTS)
            .value(PACKAGES_ENABLED, false)
            .and_where(Expr::col(PACKAGES).ne("enabled"))
            .to_owned();
        manager.get_connection().execute(&update).await?;
        remove(manager, RELEASES).await?;
        remove(manager, PACKAGES).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

async fn remove(manager: &SchemaManager<'_>, column: &'static str) -> Result<(), DbErr> {
    let remove = Table::alter().table(PROJECTS).drop_column(column).to_owned();
    manager.alter_table(remove).await
}
