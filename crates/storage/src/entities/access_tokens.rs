//! Tokens that stand for a user: personal, impersonation and project ones.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use serde::{Deserialize, Serialize};

/// How a token came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The user made it.
    Personal,
    /// An admin made it to act as the user.
    Impersonation,
    /// It belongs to the bot of a project.
    Project,
}

/// Tokens that stand for a user: personal, impersonation and project ones.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "access_tokens")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user the token acts as.
    pub user_id: i64,
    /// What its holder calls it.
    pub name: String,
    /// How it came about.
    pub kind: Kind,
    /// The SHA-256 of the token in hex; the token itself is not kept.
    pub digest: String,
    /// The scopes, separated by spaces.
    pub scopes: String,
    /// Whether it was taken back; such a row stays.
    pub revoked: bool,
    /// The last day it is good for.
    pub expires_at: Option<NaiveDate>,
    /// When it was used last, to the minute or so.
    pub last_used_at: Option<DateTime<Utc>>,
    /// Who made it, when that was another user.
    pub created_by_id: Option<i64>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
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
    /// The scopes one by one.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.split_ascii_whitespace()
    }

    /// Whether the token is past its last day.
    pub fn is_expired(&self, today: NaiveDate) -> bool {
        self.expires_at.is_some_and(|last| last < today)
    }

    /// Whether the token still opens anything: neither taken back nor past its last day.
    pub fn is_active(&self, today: NaiveDate) -> bool {
        !self.revoked && !self.is_expired(today)
    }
}

/// The token with this digest and its user, whatever their states: the caller must tell revoked from unknown.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_digest(
    db: &impl ConnectionTrait,
    digest: &str,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    super::users::one_beside(db, Entity::find().filter(Column::Digest.eq(digest))).await
}

/// The same by its id.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_id(
    db: &impl ConnectionTrait,
    id: i64,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    super::users::one_beside(db, Entity::find().filter(Column::Id.eq(id))).await
}

/// The tokens of a user that came about in one way, in the order of their ids.
pub fn of_user(user_id: i64, kind: Kind) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .filter(Column::Kind.eq(kind))
        .order_by_asc(Column::Id)
}

/// How long a token's last use is left as it stands before it is written again.
const USE_GRANULARITY: TimeDelta = TimeDelta::minutes(10);

/// Notes that a token was used, at most once in ten minutes, so that reading stays reading.
///
/// # Errors
/// Whatever the database reports.
pub async fn touch(db: &impl ConnectionTrait, token: &Model, now: DateTime<Utc>) -> Result<(), DbErr> {
    if token
        .last_used_at
        .is_some_and(|last| now - last < USE_GRANULARITY)
    {
        return Ok(());
    }
    let update = Entity::update_many().col_expr(Column::LastUsedAt, Expr::value(now));
    update.filter(Column::Id.eq(token.id)).exec(db).await.map(drop)
}
