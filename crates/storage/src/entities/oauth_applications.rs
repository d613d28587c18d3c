//! OAuth applications.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// OAuth applications.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "oauth_applications")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The client ID; unique.
    pub uid: String,
    /// The SHA-256 of the client secret in hex; the secret itself is not stored.
    pub secret_digest: String,
    /// The name shown to users.
    pub name: String,
    /// The redirect URIs, one on each line.
    pub redirect_uri: String,
    /// The scopes it may request, separated by spaces.
    pub scopes: String,
    /// Whether it is a confidential client.
    pub confidential: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// Iterates over the scopes.
    pub fn scopes(&self) -> impl Iterator<Item = &str> + Clone {
        self.scopes.split_ascii_whitespace()
    }

    /// Iterates over the redirect URIs.
    pub fn redirect_uris(&self) -> impl Iterator<Item = &str> {
        self.redirect_uri.split_ascii_whitespace()
    }
}

/// Returns the application with this client ID.
///
/// # Errors
/// Any database error.
pub async fn by_uid(db: &impl ConnectionTrait, uid: &str) -> Result<Option<Model>, DbErr> {
    Entity::find().filter(Column::Uid.eq(uid)).one(db).await
}
