//! Manifests of container images and image indexes; their content is in a separate table.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Manifests of container images and image indexes; their content is in a separate table.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_manifests")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The repository.
    pub repository_id: i64,
    /// The digest: `sha256:` and 64 hex digits.
    pub digest: String,
    /// The media type it was pushed as.
    pub media_type: String,
    /// The artifact type, if it is not an image.
    pub artifact_type: Option<String>,
    /// The digest of the subject, which may not exist.
    pub subject_digest: Option<String>,
    /// The digest of the image configuration; none for an index.
    pub config_digest: Option<String>,
    /// The annotations as JSON, if it has a subject.
    pub annotations: Option<String>,
    /// The size in bytes.
    pub size: i64,
    /// The total size of the configuration and the layers; for an index, of all its images.
    pub total_size: i64,
    /// When the image was built, from its configuration; none if missing there.
    pub image_created_at: Option<DateTime<Utc>>,
    /// Since when it has no tag, or when it was last requested by its digest after that; none while it has a tag.
    pub untagged_since: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the manifest of a repository with this digest.
pub fn by_digest(repository_id: i64, digest: &str) -> Select<Entity> {
    Entity::find()
        .filter(Column::RepositoryId.eq(repository_id))
        .filter(Column::Digest.eq(digest))
}
