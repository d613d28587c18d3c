//! Access tokens of users: personal, impersonation and project tokens.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use serde::{Deserialize, Serialize};

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Created by the user.
    Personal,
    /// Created by an administrator to act as the user.
    Impersonation,
    /// Belongs to the bot of a project.
    Project,
}

/// Access tokens of users: personal, impersonation and project tokens.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "access_tokens")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user the token acts as.
    pub user_id: i64,
    /// The name given by its owner.
    pub name: String,
    /// The kind.
    pub kind: TokenKind,
    /// The SHA-256 of the token in hex; the token itself is not stored.
    pub digest: String,
    /// The scopes, separated by spaces.
    pub scopes: String,
    /// Whether it was revoked; the row stays.
    pub revoked: bool,
    /// The last day on which it is valid.
    pub expires_at: Option<NaiveDate>,
    /// When it was last used, approximately.
    pub last_used_at: Option<DateTime<Utc>>,
    /// The creator, if that was another user.
    pub created_by_id: Option<i64>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user the token acts as.
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

impl Model {
    /// Iterates over the scopes.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.split_ascii_whitespace()
    }

    /// Returns whether the last valid day has passed.
    pub fn is_expired(&self, today: NaiveDate) -> bool {
        self.expires_at.is_some_and(|last| last < today)
    }

    /// Returns whether the token is valid: neither revoked nor expired.
    pub fn is_active(&self, today: NaiveDate) -> bool {
        !self.revoked && !self.is_expired(today)
    }
}

/// Returns the token with this digest and its user in any state, because the caller must distinguish revoked
/// from unknown.
///
/// # Errors
/// Any database error.
pub async fn by_digest(
    db: &impl ConnectionTrait,
    digest: &str,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    super::users::find_with_user(db, Entity::find().filter(Column::Digest.eq(digest))).await
}

/// As above, by ID.
///
/// # Errors
/// Any database error.
pub async fn by_id(
    db: &impl ConnectionTrait,
    id: i64,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    super::users::find_with_user(db, Entity::find().filter(Column::Id.eq(id))).await
}

/// Selects the tokens of a user of one kind, ordered by ID.
pub fn of_user(user_id: i64, kind: TokenKind) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .filter(Column::Kind.eq(kind))
        .order_by_asc(Column::Id)
}

/// How long a token's last use stays unchanged before it is written again.
const USE_GRANULARITY: TimeDelta = TimeDelta::minutes(10);

/// Records the use of a token at most once in ten minutes, so that reads rarely write. Returns whether it was recorded.
///
/// # Errors
/// Any database error.
pub async fn record_use(db: &impl ConnectionTrait, token: &Model, now: DateTime<Utc>) -> Result<bool, DbErr> {
    if token
        .last_used_at
        .is_some_and(|last| now - last < USE_GRANULARITY)
    {
        return Ok(false);
    }
    let update = Entity::update_many().col_expr(Column::LastUsedAt, Expr::value(now));
    update.filter(Column::Id.eq(token.id)).exec(db).await?;
    Ok(true)
}
