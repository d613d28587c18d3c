//! Tokens of pipeline jobs (ADR 18). Each authenticates one user for one project, until it expires or the job
//! ends. Only their digests are stored.

use chrono::TimeDelta;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::job_tokens::{ActiveModel, Column, Entity, Model, find_valid, find_valid_by_id};
use storage::entities::{now, users};

use crate::kernel::error::{Error, Result};
use crate::secrets::{self, Token};

/// Prefix by which secret scanners recognize the tokens.
const PREFIX: &str = "hfjob-";

/// Creates a token for a job of this user in this project, with a maximum lifetime. The secret is returned
/// only here. Belongs into the transaction that starts the job, as [`delete`] belongs into the one that ends it.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn create(
    db: &impl ConnectionTrait,
    user_id: i64,
    project_id: i64,
    lifetime: TimeDelta,
) -> Result<(Model, String)> {
    let instant = now();
    // Removes expired tokens of jobs that never ended.
    Entity::delete_many()
        .filter(Column::ExpiresAt.lte(instant))
        .exec(db)
        .await?;
    let token = Token::generate(PREFIX);
    let row = ActiveModel {
        user_id: Set(user_id),
        project_id: Set(project_id),
        digest: Set(token.digest()),
        expires_at: Set(instant + lifetime),
        created_at: Set(instant),
        ..Default::default()
    };
    Ok((row.insert(db).await?, token.expose().to_owned()))
}

/// Ends a token. Does nothing if it has ended.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn delete(db: &impl ConnectionTrait, id: i64) -> Result<()> {
    Entity::delete_by_id(id).exec(db).await?;
    Ok(())
}

/// Returns a token and its user.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token is unknown or has ended.
pub async fn find(db: &impl ConnectionTrait, token: &str) -> Result<(Model, users::Model)> {
    let found = find_valid(db, &secrets::digest(token), now()).await?;
    found.ok_or(Error::Unauthorized)
}

/// Returns a token and its user, by the ID of the token.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token has ended.
pub async fn find_by_id(db: &impl ConnectionTrait, id: i64) -> Result<(Model, users::Model)> {
    find_valid_by_id(db, id, now()).await?.ok_or(Error::Unauthorized)
}
