//! Browser sessions.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Browser sessions.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The SHA-256 of the cookie in hex.
    pub digest: String,
    /// The user.
    pub user_id: i64,
    /// The seed of the session's CSRF tokens.
    pub csrf_seed: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
    /// When it was last used, approximately.
    pub last_seen_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the session with this digest and its user, unless it has expired.
///
/// # Errors
/// Any database error.
pub async fn by_digest(
    db: &impl ConnectionTrait,
    digest: &str,
    now: DateTime<Utc>,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    let rows = Entity::find()
        .filter(Column::Digest.eq(digest))
        .filter(Column::ExpiresAt.gt(now));
    super::users::find_with_user(db, rows).await
}

/// Returns the session with this ID and its user, unless it has expired.
///
/// # Errors
/// Any database error.
pub async fn by_id(
    db: &impl ConnectionTrait,
    id: i64,
    now: DateTime<Utc>,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    let rows = Entity::find_by_id(id).filter(Column::ExpiresAt.gt(now));
    super::users::find_with_user(db, rows).await
}
