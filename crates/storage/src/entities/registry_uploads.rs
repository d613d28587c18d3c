//! Blobs on their way: what a client may go on with, on whichever node.

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// Blobs on their way: what a client may go on with, on whichever node.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_uploads")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What the client knows it by.
    pub uuid: String,
    /// The repository it is for.
    pub repository_id: i64,
    /// How many bytes are kept.
    pub received: i64,
    /// In how many pieces.
    pub pieces: i32,
    /// How far the digest of these bytes has come, in hex digits.
    pub hash_state: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When something came last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Locks the upload with this name until the transaction ends; none when it is not there.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, uuid: &str) -> Result<Option<Model>, DbErr> {
    let found = Entity::find().filter(Column::Uuid.eq(uuid)).lock_exclusive();
    found.one(db).await
}
