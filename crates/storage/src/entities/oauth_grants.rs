//! OAuth authorization codes, each of which can be exchanged once for tokens.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// OAuth authorization codes, each of which can be exchanged once for tokens.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "oauth_grants")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The application.
    pub application_id: i64,
    /// The user.
    pub user_id: i64,
    /// The token family: an ID shared by all tokens from this grant.
    pub family: String,
    /// The SHA-256 of the code in hex.
    pub digest: String,
    /// The redirect URI of the request.
    pub redirect_uri: String,
    /// The granted scopes, separated by spaces.
    pub scopes: String,
    /// The PKCE code challenge.
    pub code_challenge: Option<String>,
    /// The PKCE method: `S256` or `plain`.
    pub code_challenge_method: Option<String>,
    /// When the code was exchanged.
    pub used_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
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
