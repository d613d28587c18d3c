//! Objects of the storage that hold bytes of uploads and blobs. Those of neither are garbage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

/// Objects of the storage that hold bytes of uploads and blobs. Those of neither are garbage.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_pieces")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The upload it came with, until that ends.
    pub upload_id: Option<i64>,
    /// The blob it is a part of.
    pub blob_id: Option<i64>,
    /// Where it lies in the object storage.
    pub key: String,
    /// Where its bytes begin within the upload or the blob.
    pub start: i64,
    /// The length in bytes; 0 until it is wholly there.
    pub size: i64,
    /// When the storage had all of it.
    pub stored_at: Option<DateTime<Utc>>,
    /// When the row was made, before anything was written.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The pieces of a blob in their order.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_blob(db: &impl ConnectionTrait, blob_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::BlobId.eq(blob_id))
        .order_by_asc(Column::Start)
        .all(db)
        .await
}

/// Pieces that belong to nobody, at most `limit`: those that are wholly there, and those that nobody can be writing any more
/// because they were begun before an instant.
///
/// # Errors
/// Whatever the database reports.
pub async fn orphans(
    db: &impl ConnectionTrait,
    begun_before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    let over = Condition::any()
        .add(Column::StoredAt.is_not_null())
        .add(Column::CreatedAt.lt(begun_before));
    Entity::find()
        .filter(Column::UploadId.is_null())
        .filter(Column::BlobId.is_null())
        .filter(over)
        .order_by_asc(Column::CreatedAt)
        .limit(limit)
        .all(db)
        .await
}
