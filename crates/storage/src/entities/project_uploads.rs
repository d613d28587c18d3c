//! Files uploaded to projects; their content is in the object storage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

/// Files uploaded to projects; their content is in the object storage.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "project_uploads")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The user who uploaded it.
    pub uploader_id: Option<i64>,
    /// The secret part of its URL: 32 hex digits.
    pub secret: String,
    /// The sanitized file name.
    pub file_name: String,
    /// The size in bytes.
    pub size: i64,
    /// When it was completely stored; until then it is invisible.
    pub stored_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the complete file of a project with this secret.
///
/// # Errors
/// Any database error.
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

/// Returns files whose upload started before `before` and never completed, at most `limit`.
///
/// # Errors
/// Any database error.
pub async fn abandoned(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::StoredAt.is_null())
        .filter(Column::CreatedAt.lt(before))
        .order_by_asc(Column::CreatedAt)
        .limit(limit)
        .all(db)
        .await
}
