//! Blobs that a repository serves, because they were pushed to it or mounted.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Blobs that a repository serves, because they were pushed to it or mounted.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_repository_blobs")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The repository.
    pub repository_id: i64,
    /// The blob.
    pub blob_id: i64,
    /// When it was last pushed, mounted or requested, to within an hour. For some time after that, it stays
    /// without a manifest.
    pub touched_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
