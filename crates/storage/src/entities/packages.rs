//! Packages of projects. Each row is one version.

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// Format of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum PackageType {
    /// Any files.
    Generic,
    /// A package of npm.
    Npm,
    /// A package of PyPI.
    Pypi,
    /// A crate of Cargo.
    Cargo,
    /// A version of a Maven artifact, or the metadata of an artifact.
    Maven,
}

/// Status of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum PackageStatus {
    /// In lists.
    Default,
    /// Not in lists, but its files can be downloaded.
    Hidden,
}

/// Packages of projects. Each row is one version.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "packages")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The user who published it; none for a deploy token or a deleted user.
    pub creator_id: Option<i64>,
    /// The format.
    pub package_type: PackageType,
    /// The name.
    pub name: String,
    /// The folded name, for searches and sorting.
    pub name_key: String,
    /// The name in the form that the format compares; unique within the project with the format and the version.
    pub lookup_name: String,
    /// The version; empty for the metadata of a Maven artifact.
    pub version: String,
    /// The status.
    pub status: PackageStatus,
    /// When a file was last downloaded.
    pub last_downloaded_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the packages of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// Selects the package of a project with this format, name and version.
pub fn by_version(project_id: i64, kind: PackageType, lookup_name: &str, version: &str) -> Select<Entity> {
    of_project(project_id)
        .filter(Column::PackageType.eq(kind))
        .filter(Column::LookupName.eq(lookup_name))
        .filter(Column::Version.eq(version))
}

/// Locks a package of a project until the transaction ends; returns none if it does not exist.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Option<Model>, DbErr> {
    let found = of_project(project_id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await
}
