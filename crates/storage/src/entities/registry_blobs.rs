//! Blobs of container images: layers and configurations, each stored once for all repositories.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Blobs of container images: layers and configurations, each stored once for all repositories.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_blobs")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The digest: `sha256:` and 64 hex digits.
    pub digest: String,
    /// The size in bytes.
    pub size: i64,
    /// When a check first found that no repository uses it.
    pub unreferenced_since: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the blob with this digest.
pub fn by_digest(digest: &str) -> Select<Entity> {
    Entity::find().filter(Column::Digest.eq(digest))
}
