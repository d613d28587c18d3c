//! Sign-ins whose password was verified, and that wait for the second factor.
//!
//! A row exists only while the row of its user is as it was when the password was verified: changes of the
//! password, the state or the second factor lock the user and delete the row.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    QueryFilter,
};
use storage::entities::pending_sign_ins::{ActiveModel, Column, Entity, Model, by_digest};

use crate::kernel::error::Result;
use crate::secrets::{self, Token};

/// Lifetime of a row.
pub(in crate::identity) const LIFETIME: TimeDelta = TimeDelta::minutes(5);

/// Stores a sign-in of a user who is locked, and returns its secret. Deletes expired ones.
///
/// # Errors
/// Returns an error if the database fails.
pub(in crate::identity) async fn insert(
    transaction: &DatabaseTransaction,
    user_id: i64,
    new_password_hash: Option<String>,
    instant: DateTime<Utc>,
) -> Result<Token> {
    Entity::delete_many()
        .filter(Column::ExpiresAt.lte(instant))
        .exec(transaction)
        .await?;
    let secret = Token::generate("");
    let row = ActiveModel {
        digest: Set(secret.digest()),
        user_id: Set(user_id),
        new_password_hash: Set(new_password_hash),
        expires_at: Set(instant + LIFETIME),
        ..Default::default()
    };
    row.insert(transaction).await?;
    Ok(secret)
}

/// Returns the sign-in with this secret, unless it has expired.
///
/// # Errors
/// Returns an error if the database fails.
pub(in crate::identity) async fn find(
    db: &impl ConnectionTrait,
    secret: &str,
    instant: DateTime<Utc>,
) -> Result<Option<Model>> {
    Ok(by_digest(db, &secrets::digest(secret), instant).await?)
}

/// Deletes a sign-in that succeeded.
///
/// # Errors
/// Returns an error if the database fails.
pub(in crate::identity) async fn delete(transaction: &DatabaseTransaction, pending: &Model) -> Result<()> {
    Entity::delete_by_id(pending.id).exec(transaction).await?;
    Ok(())
}

/// Deletes the sign-ins of a user that wait for the second factor.
///
/// # Errors
/// Returns an error if the database fails.
pub(in crate::identity) async fn delete_all(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    Entity::delete_many()
        .filter(Column::UserId.eq(user_id))
        .exec(transaction)
        .await?;
    Ok(())
}
