//! Tokens of OAuth applications, each with the refresh token that leads to the next.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;

/// Tokens of OAuth applications, each with the refresh token that leads to the next.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "oauth_tokens")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Of which application.
    pub application_id: i64,
    /// The user the token acts as.
    pub user_id: i64,
    /// What all tokens of one grant share.
    pub family: String,
    /// The SHA-256 of the access token in hex.
    pub digest: String,
    /// The SHA-256 of the refresh token in hex.
    pub refresh_digest: String,
    /// The scopes, separated by spaces.
    pub scopes: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the access token ends.
    pub expires_at: DateTime<Utc>,
    /// When both tokens were taken back, or replaced by the next.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Whose it is.
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
    /// The scopes one by one.
    pub fn scopes(&self) -> impl Iterator<Item = &str> + Clone {
        self.scopes.split_ascii_whitespace()
    }
}

/// The row of the access token with this digest and its user, whatever their states.
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

/// Takes back every token of a family.
///
/// # Errors
/// Whatever the database reports.
pub async fn revoke_family(db: &impl ConnectionTrait, family: &str, now: DateTime<Utc>) -> Result<(), DbErr> {
    let update = Entity::update_many()
        .col_expr(Column::RevokedAt, Expr::value(now))
        .filter(Column::Family.eq(family))
        .filter(Column::RevokedAt.is_null());
    update.exec(db).await.map(drop)
}
