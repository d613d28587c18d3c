//! OAuth applications.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// OAuth applications.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "oauth_applications")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What it calls itself in requests; unique.
    pub uid: String,
    /// The SHA-256 of its secret in hex; the secret itself is not kept.
    pub secret_digest: String,
    /// What users are shown.
    pub name: String,
    /// Where users may be sent back to, one address a line.
    pub redirect_uri: String,
    /// What it may ask for, separated by spaces.
    pub scopes: String,
    /// Whether it can keep a secret.
    pub confidential: bool,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// The scopes one by one.
    pub fn scopes(&self) -> impl Iterator<Item = &str> + Clone {
        self.scopes.split_ascii_whitespace()
    }

    /// The redirect addresses one by one.
    pub fn redirect_uris(&self) -> impl Iterator<Item = &str> {
        self.redirect_uri.split_ascii_whitespace()
    }
}

/// The application that calls itself this.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_uid(db: &impl ConnectionTrait, uid: &str) -> Result<Option<Model>, DbErr> {
    Entity::find().filter(Column::Uid.eq(uid)).one(db).await
}
