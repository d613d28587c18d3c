//! Manifests of container images and lists of these; their bytes lie apart.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Manifests of container images and lists of these; their bytes lie apart.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_manifests")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The repository.
    pub repository_id: i64,
    /// What it is: `sha256:` and 64 hex digits.
    pub digest: String,
    /// The media type it was pushed as.
    pub media_type: String,
    /// What kind of thing it describes, where that is not an image.
    pub artifact_type: Option<String>,
    /// The manifest it is about, which need not be there.
    pub subject_digest: Option<String>,
    /// The configuration of the image; none of lists.
    pub config_digest: Option<String>,
    /// Its annotations as JSON, where it has a subject.
    pub annotations: Option<String>,
    /// The length in bytes.
    pub size: i64,
    /// The length of the configuration and the layers together; of a list, that of all its images.
    pub total_size: i64,
    /// When the image was made, by its configuration; none when that does not say.
    pub image_created_at: Option<DateTime<Utc>>,
    /// Since when it has no tag; none while it has one.
    pub untagged_since: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The manifest of a repository with this digest.
pub fn by_digest(repository_id: i64, digest: &str) -> Select<Entity> {
    Entity::find()
        .filter(Column::RepositoryId.eq(repository_id))
        .filter(Column::Digest.eq(digest))
}
