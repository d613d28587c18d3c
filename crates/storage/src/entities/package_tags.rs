//! Tags of packages, such as `latest`. A tag is unique within all versions of a package.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Tags of packages.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "package_tags")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name of the package, as in `packages.lookup_name`.
    pub lookup_name: String,
    /// The tag; unique within the project and the name.
    pub tag: String,
    /// The version that has the tag.
    pub package_id: i64,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
