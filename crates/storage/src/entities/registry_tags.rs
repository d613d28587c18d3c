//! Tags of container images; lists of them are in the order of the bytes of their names.

use chrono::{DateTime, Utc};
use sea_orm::SelectTwo;
use sea_orm::entity::prelude::*;

/// Tags of container images; lists of them are in the order of the bytes of their names.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_tags")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The repository.
    pub repository_id: i64,
    /// The name; unique within the repository.
    pub name: String,
    /// The manifest it names, of the same repository.
    pub manifest_id: i64,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was pushed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
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

/// The tags of a repository.
pub fn of_repository(repository_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::RepositoryId.eq(repository_id))
}

/// The tags of a repository with the manifests they name.
pub fn with_manifests(repository_id: i64) -> SelectTwo<Entity, super::registry_manifests::Entity> {
    of_repository(repository_id).find_also_related(super::registry_manifests::Entity)
}
