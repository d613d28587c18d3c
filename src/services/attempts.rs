//! Failed attempts to prove a password, counted so that nobody can try for long.

use std::sync::LazyLock;

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::{now, sign_in_failures};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{Error, Result};
use crate::secrets;
use crate::services::Backend;

/// How long a failed attempt counts.
const WINDOW: TimeDelta = TimeDelta::minutes(10);
/// How many failures an account or an address may have in that time.
const MAX_FAILURES: u64 = 10;

/// Passwords that are hashed at a time, each of which takes a processor and 19 MiB for a while.
const HASHES: usize = 4;
static HASHING: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(HASHES));

/// Waits for a place among those whose passwords are looked at. Whoever holds it until the outcome is noted lets no more
/// attempts slip through than there are places.
///
/// # Errors
/// None in a server that runs.
pub async fn turn() -> Result<SemaphorePermit<'static>> {
    HASHING.acquire().await.map_err(Error::internal)
}

/// Whether a password is the one of a hash; takes as long without one.
///
/// # Errors
/// For a hash that is none.
pub async fn fits(password: String, hash: Option<String>) -> Result<bool> {
    let check = tokio::task::spawn_blocking(move || secrets::verify_password(&password, hash.as_deref()));
    Ok(check.await.map_err(Error::internal)??)
}

/// What failures are counted by: the account, whether it exists or not, and the address, which has a count of its
/// own for each `place` where passwords are taken.
#[must_use]
pub fn sources(login: &str, place: &str, address: Option<&str>) -> Vec<String> {
    let account = format!("account:{}", storage::entities::fold(login));
    let address = address.map(|address| format!("{place}:{address}"));
    [Some(account), address]
        .into_iter()
        .flatten()
        .map(|source| secrets::digest(&source))
        .collect()
}

/// Notes an attempt as failed and gives the rows; refuses when there were too many before it.
///
/// # Errors
/// [`Error::RateLimited`].
pub async fn note(backend: &Backend, sources: &[String]) -> Result<Vec<i64>> {
    let instant = now();
    let noted = insert(backend, sources, instant).await?;
    // The attempt itself is the first of them, so one more than are allowed is one too many.
    match refuse_beyond(backend, sources, MAX_FAILURES, instant).await {
        Ok(()) => Ok(noted),
        Err(refusal) => {
            forget(backend, noted).await?;
            Err(refusal)
        }
    }
}

/// Refuses an attempt of which nothing is noted yet when there were too many before it.
///
/// # Errors
/// [`Error::RateLimited`].
pub async fn refuse_excess(backend: &Backend, sources: &[String]) -> Result<()> {
    refuse_beyond(backend, sources, MAX_FAILURES - 1, now()).await
}

/// Notes an attempt that has failed.
///
/// # Errors
/// Whatever the database reports.
pub async fn note_failure(backend: &Backend, sources: &[String]) -> Result<()> {
    insert(backend, sources, now()).await.map(|_| ())
}

/// Takes back what was noted of an attempt.
///
/// # Errors
/// Whatever the database reports.
pub async fn forget(backend: &Backend, noted: Vec<i64>) -> Result<()> {
    sign_in_failures::Entity::delete_many()
        .filter(sign_in_failures::Column::Id.is_in(noted))
        .exec(backend.database.write())
        .await?;
    Ok(())
}

async fn insert(backend: &Backend, sources: &[String], instant: DateTime<Utc>) -> Result<Vec<i64>> {
    let db = backend.database.write();
    sign_in_failures::Entity::delete_many()
        .filter(sign_in_failures::Column::FailedAt.lte(instant - WINDOW))
        .exec(db)
        .await?;
    let mut noted = Vec::with_capacity(sources.len());
    for source in sources {
        let row = sign_in_failures::ActiveModel {
            source: Set(source.clone()),
            failed_at: Set(instant),
            ..Default::default()
        };
        noted.push(row.insert(db).await?.id);
    }
    Ok(noted)
}

/// Refuses when a source has more than `allowed` failures, and tells when it will have one less.
async fn refuse_beyond(
    backend: &Backend,
    sources: &[String],
    allowed: u64,
    instant: DateTime<Utc>,
) -> Result<()> {
    for source in sources {
        let oldest = sign_in_failures::since(source, instant - WINDOW)
            .offset(allowed)
            .limit(1)
            .one(backend.database.write())
            .await?;
        if let Some(oldest) = oldest {
            let wait = (oldest.failed_at + WINDOW - instant).num_seconds();
            return Err(Error::RateLimited(
                u64::try_from(wait).unwrap_or(0).saturating_add(1),
            ));
        }
    }
    Ok(())
}
