//! Sign-in sessions of browsers.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Sign-in sessions of browsers.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The SHA-256 of the cookie in hex.
    pub digest: String,
    /// Who signed in.
    pub user_id: i64,
    /// What the CSRF tokens of the session are derived from.
    pub csrf_seed: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it ends.
    pub expires_at: DateTime<Utc>,
    /// When it was used last, to the minute or so.
    pub last_seen_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Who signed in.
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

/// The session with this digest and its user, unless it has ended.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_digest(
    db: &impl ConnectionTrait,
    digest: &str,
    now: DateTime<Utc>,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    let rows = Entity::find()
        .filter(Column::Digest.eq(digest))
        .filter(Column::ExpiresAt.gt(now));
    super::users::one_beside(db, rows).await
}
