//! OAuth access tokens, each with its refresh token.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;

/// OAuth access tokens, each with its refresh token.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "oauth_tokens")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The application.
    pub application_id: i64,
    /// The user the token acts as.
    pub user_id: i64,
    /// The token family: an ID shared by all tokens of one grant.
    pub family: String,
    /// The SHA-256 of the access token in hex.
    pub digest: String,
    /// The SHA-256 of the refresh token in hex.
    pub refresh_digest: String,
    /// The scopes, separated by spaces.
    pub scopes: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the access token expires.
    pub expires_at: DateTime<Utc>,
    /// When both tokens were revoked or replaced.
    pub revoked_at: Option<DateTime<Utc>>,
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
    /// The application.
    #[sea_orm(
        belongs_to = "super::oauth_applications::Entity",
        from = "Column::ApplicationId",
        to = "super::oauth_applications::Column::Id"
    )]
    Application,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl Related<super::oauth_applications::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Application.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// Iterates over the scopes.
    pub fn scopes(&self) -> impl Iterator<Item = &str> + Clone {
        self.scopes.split_ascii_whitespace()
    }
}

/// Returns the row of the access token with this digest and its user, in any state.
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

/// Revokes all tokens of a family.
///
/// # Errors
/// Any database error.
pub async fn revoke_family(
    db: &impl ConnectionTrait,
    family: &str,
    now: DateTime<Utc>,
) -> Result<u64, DbErr> {
    let update = Entity::update_many()
        .col_expr(Column::RevokedAt, Expr::value(now))
        .filter(Column::Family.eq(family))
        .filter(Column::RevokedAt.is_null());
    Ok(update.exec(db).await?.rows_affected)
}
