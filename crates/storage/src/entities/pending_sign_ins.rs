//! Sign-ins whose password was verified and whose second factor was not.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Sign-ins whose password was verified and whose second factor was not.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "pending_sign_ins")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The SHA-256 of the cookie in hex; unique.
    pub digest: String,
    /// The user.
    pub user_id: i64,
    /// The hash of the new password, if it must be changed.
    pub new_password_hash: Option<String>,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the sign-in with this digest, unless it has expired.
///
/// # Errors
/// Any database error.
pub async fn by_digest(
    db: &impl ConnectionTrait,
    digest: &str,
    now: DateTime<Utc>,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::Digest.eq(digest))
        .filter(Column::ExpiresAt.gt(now))
        .one(db)
        .await
}
