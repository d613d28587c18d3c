//! Stored objects with parts of uploads and blobs. Objects of neither are garbage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

/// Stored objects with parts of uploads and blobs. Objects of neither are garbage.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_pieces")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The upload, until it ends.
    pub upload_id: Option<i64>,
    /// The blob.
    pub blob_id: Option<i64>,
    /// The key in the object storage.
    pub key: String,
    /// The offset within the upload or the blob.
    pub start: i64,
    /// The size in bytes; 0 until it is complete.
    pub size: i64,
    /// When it was completely stored.
    pub stored_at: Option<DateTime<Utc>>,
    /// When the row was created, before anything was stored.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the pieces of a blob in order.
///
/// # Errors
/// Any database error.
pub async fn of_blob(db: &impl ConnectionTrait, blob_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::BlobId.eq(blob_id))
        .order_by_asc(Column::Start)
        .all(db)
        .await
}

/// Returns pieces without an upload or blob, at most `limit`: complete ones, and incomplete ones created
/// before `begun_before`, which cannot be in progress any more. They follow the piece with the creation time and ID of
/// `after`.
///
/// # Errors
/// Any database error.
pub async fn orphans(
    db: &impl ConnectionTrait,
    begun_before: DateTime<Utc>,
    after: Option<(DateTime<Utc>, i64)>,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    let over = Condition::any()
        .add(Column::StoredAt.is_not_null())
        .add(Column::CreatedAt.lt(begun_before));
    let mut found = Entity::find()
        .filter(Column::UploadId.is_null())
        .filter(Column::BlobId.is_null())
        .filter(over);
    if let Some((created_at, id)) = after {
        let later = Condition::any()
            .add(Column::CreatedAt.gt(created_at))
            .add(Column::Id.gt(id));
        // The first condition is a range of the index.
        found = found.filter(Column::CreatedAt.gte(created_at)).filter(later);
    }
    found
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .limit(limit)
        .all(db)
        .await
}
