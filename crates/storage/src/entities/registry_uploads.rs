//! Blob uploads in progress, which a client may continue on any node.

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// Blob uploads in progress, which a client may continue on any node.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_uploads")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The upload ID in the protocol.
    pub uuid: String,
    /// The repository.
    pub repository_id: i64,
    /// Number of stored bytes.
    pub received: i64,
    /// Number of pieces.
    pub pieces: i32,
    /// The state of the digest of these bytes, in hex digits.
    pub hash_state: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When data last arrived.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Locks the upload with this ID until the transaction ends; returns none if it does not exist.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, uuid: &str) -> Result<Option<Model>, DbErr> {
    let found = Entity::find().filter(Column::Uuid.eq(uuid)).lock_exclusive();
    found.one(db).await
}
