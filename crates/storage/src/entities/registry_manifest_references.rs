//! Blobs and child manifests that manifests reference.

use sea_orm::entity::prelude::*;

/// Blobs and child manifests that manifests reference.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_manifest_references")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The repository of the manifest.
    pub repository_id: i64,
    /// The manifest.
    pub manifest_id: i64,
    /// The referenced blob.
    pub blob_id: Option<i64>,
    /// The referenced manifest.
    pub child_id: Option<i64>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
