//! What manifests are made of: blobs, or manifests of the same repository.

use sea_orm::entity::prelude::*;

/// What manifests are made of: blobs, or manifests of the same repository.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_manifest_references")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The repository of the manifest.
    pub repository_id: i64,
    /// The manifest.
    pub manifest_id: i64,
    /// A blob that it names.
    pub blob_id: Option<i64>,
    /// A manifest that it names.
    pub child_id: Option<i64>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
