//! Codes that users granted to OAuth applications, to be exchanged for tokens once.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Codes that users granted to OAuth applications, to be exchanged for tokens once.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "oauth_grants")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// To which application.
    pub application_id: i64,
    /// Who granted it.
    pub user_id: i64,
    /// What all tokens that come of it share.
    pub family: String,
    /// The SHA-256 of the code in hex.
    pub digest: String,
    /// Where the user was sent back to.
    pub redirect_uri: String,
    /// What was granted, separated by spaces.
    pub scopes: String,
    /// What the verifier of the exchange must match.
    pub code_challenge: Option<String>,
    /// How: `S256` or `plain`.
    pub code_challenge_method: Option<String>,
    /// When it was exchanged.
    pub used_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it ends.
    pub expires_at: DateTime<Utc>,
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
