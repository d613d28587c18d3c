//! Files uploaded to projects; their bytes lie in the object storage.

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// Files uploaded to projects; their bytes lie in the object storage.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "project_uploads")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// Who uploaded it.
    pub uploader_id: Option<i64>,
    /// The part of its address that cannot be guessed: 32 hex digits.
    pub secret: String,
    /// The cleaned name.
    pub file_name: String,
    /// The length in bytes.
    pub size: i64,
    /// When the storage had all of it; until then it is not there for anybody.
    pub stored_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The file of a project with this secret, when it is wholly there.
///
/// # Errors
/// Whatever the database reports.
pub async fn stored(
    db: &impl ConnectionTrait,
    project_id: i64,
    secret: &str,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::Secret.eq(secret))
        .filter(Column::StoredAt.is_not_null())
        .one(db)
        .await
}

/// Files whose upload began before an instant and never ended, at most `limit`.
///
/// # Errors
/// Whatever the database reports.
pub async fn abandoned(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::StoredAt.is_null())
        .filter(Column::CreatedAt.lt(before))
        .limit(limit)
        .all(db)
        .await
}
