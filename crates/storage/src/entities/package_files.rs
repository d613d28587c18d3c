//! Files of packages.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Files of packages.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "package_files")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The package.
    pub package_id: i64,
    /// The name.
    pub file_name: String,
    /// The name, if the package can have only one file with this name; unique within the package.
    pub distinct_name: Option<String>,
    /// The size in bytes.
    pub size: i64,
    /// The MD5 in hex.
    pub md5: String,
    /// The SHA-1 in hex.
    pub sha1: String,
    /// The SHA-256 in hex.
    pub sha256: String,
    /// The SHA-512 in hex; none if the file was stored before SHA-512 was computed.
    pub sha512: Option<String>,
    /// The versions of Python that the file supports.
    pub requires_python: Option<String>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The package.
    #[sea_orm(
        belongs_to = "super::packages::Entity",
        from = "Column::PackageId",
        to = "super::packages::Column::Id"
    )]
    Package,
    /// The content.
    #[sea_orm(has_one = "super::package_blobs::Entity")]
    Blob,
}

impl Related<super::packages::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Package.def()
    }
}

impl Related<super::package_blobs::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Blob.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the files of a package.
pub fn of_package(package_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::PackageId.eq(package_id))
}
