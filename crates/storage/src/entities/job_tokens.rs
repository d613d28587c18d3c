//! CI job tokens.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;

/// CI job tokens: each acts as one user on one project until a time.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "job_tokens")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user it acts as.
    pub user_id: i64,
    /// The project it has access to.
    pub project_id: i64,
    /// The SHA-256 of the token in hex; the token itself is not stored.
    pub digest: String,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user it acts as.
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

/// Returns the token with this digest that has not expired at `now`, and its user, who is not being deleted.
///
/// # Errors
/// Any database error.
pub async fn find_valid(
    db: &impl ConnectionTrait,
    digest: &str,
    now: DateTime<Utc>,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    one_with_user(db, Column::Digest.eq(digest), now).await
}

/// As above, by ID.
///
/// # Errors
/// Any database error.
pub async fn find_valid_by_id(
    db: &impl ConnectionTrait,
    id: i64,
    now: DateTime<Utc>,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    one_with_user(db, Column::Id.eq(id), now).await
}

async fn one_with_user(
    db: &impl ConnectionTrait,
    which: Expr,
    now: DateTime<Utc>,
) -> Result<Option<(Model, super::users::Model)>, DbErr> {
    let rows = Entity::find().filter(which).filter(Column::ExpiresAt.gt(now));
    super::users::find_with_user(db, rows).await
}
