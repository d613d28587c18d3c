//! Tokens that jobs of a pipeline act by (specification 5, ADR 18): each acts as one user on one project, until its
//! time is over or the job ends. Only their digests are kept.

use chrono::TimeDelta;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

use crate::entities::job_tokens::{ActiveModel, Column, Entity, Model, good, good_by_id};
use crate::entities::{now, users};
use crate::error::{Error, Result};
use crate::secrets::{self, Token};

/// What secret scanners know the tokens by.
const PREFIX: &str = "hfjob-";

/// Makes a token that lets a job act as this user on this project, for so long at most. The secret is given out here
/// and never again. It belongs into the transaction that starts the job, as [`end`] belongs into the one that ends it.
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
    // Those of jobs that never ended are good for nothing any more.
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

/// Ends a token; one that has ended stays so.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn end(db: &impl ConnectionTrait, id: i64) -> Result<()> {
    Entity::delete_by_id(id).exec(db).await?;
    Ok(())
}

/// A token and the user it acts as.
///
/// # Errors
/// 401 when it is unknown or has ended.
pub async fn find(db: &impl ConnectionTrait, token: &str) -> Result<(Model, users::Model)> {
    let found = good(db, &secrets::digest(token), now()).await?;
    found.ok_or(Error::Unauthorized)
}

/// The same by its id.
///
/// # Errors
/// 401 when it has ended.
pub async fn find_by_id(db: &impl ConnectionTrait, id: i64) -> Result<(Model, users::Model)> {
    good_by_id(db, id, now()).await?.ok_or(Error::Unauthorized)
}
