//! Rules of projects about the callers that can upload and delete packages.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::packages::PackageType;

/// Minimum access level for a change of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum ProtectionLevel {
    /// The Maintainer role.
    Maintainer,
    /// The Owner role.
    Owner,
    /// An administrator.
    Admin,
}

/// Rules of projects about the callers that can upload and delete packages.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "package_protection_rules")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The format of the packages.
    pub package_type: PackageType,
    /// The name of a package, or a pattern with `*`.
    pub name_pattern: String,
    /// The minimum access level for uploads.
    pub push_level: Option<ProtectionLevel>,
    /// The minimum access level for deletions.
    pub delete_level: Option<ProtectionLevel>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the rules of a project in creation order.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
