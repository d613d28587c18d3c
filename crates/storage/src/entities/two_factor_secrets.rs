//! Secrets that users share with their authenticator app.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Secrets that users share with their authenticator app.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "two_factor_secrets")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user; unique.
    pub user_id: i64,
    /// The secret in Base32, encrypted.
    pub secret_encrypted: String,
    /// The time step of the last accepted code.
    pub last_used_step: Option<i64>,
    /// When the setup started.
    pub created_at: DateTime<Utc>,
    /// When the setup was confirmed with a code; until then the secret has no effect.
    pub enabled_at: Option<DateTime<Utc>>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the secret of a user.
///
/// # Errors
/// Any database error.
pub async fn of_user(db: &impl ConnectionTrait, user_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find().filter(Column::UserId.eq(user_id)).one(db).await
}
