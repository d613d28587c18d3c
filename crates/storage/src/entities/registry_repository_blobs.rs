//! Which blobs a repository may serve: those that were pushed to it, or mounted.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Which blobs a repository may serve: those that were pushed to it, or mounted.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_repository_blobs")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The repository.
    pub repository_id: i64,
    /// The blob.
    pub blob_id: i64,
    /// When it was last pushed, mounted or asked for, to within an hour; for a time after that it stays without a manifest.
    pub touched_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
