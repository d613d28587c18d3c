//! Blobs of container images: layers and configurations, each of which is kept once for all repositories.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Blobs of container images: layers and configurations, each of which is kept once for all repositories.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_blobs")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What it is: `sha256:` and 64 hex digits.
    pub digest: String,
    /// The length in bytes.
    pub size: i64,
    /// Since when no repository has it, as far as was seen.
    pub unreferenced_since: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The blob with this digest.
pub fn by_digest(digest: &str) -> Select<Entity> {
    Entity::find().filter(Column::Digest.eq(digest))
}
