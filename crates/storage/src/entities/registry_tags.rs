//! Tags of container images; lists are in byte order of the names.

use chrono::{DateTime, Utc};
use sea_orm::SelectTwo;
use sea_orm::entity::prelude::*;

/// Tags of container images; lists are in byte order of the names.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_tags")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The repository.
    pub repository_id: i64,
    /// The name; unique within the repository.
    pub name: String,
    /// The manifest, of the same repository.
    pub manifest_id: i64,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When it was last pushed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The manifest.
    #[sea_orm(
        belongs_to = "super::registry_manifests::Entity",
        from = "Column::ManifestId",
        to = "super::registry_manifests::Column::Id"
    )]
    Manifest,
}

impl Related<super::registry_manifests::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Manifest.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the tags of a repository.
pub fn of_repository(repository_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::RepositoryId.eq(repository_id))
}

/// Selects the tags of a repository with their manifests.
pub fn with_manifests(repository_id: i64) -> SelectTwo<Entity, super::registry_manifests::Entity> {
    of_repository(repository_id).find_also_related(super::registry_manifests::Entity)
}
