//! Limits failed password attempts per account and per address.

use std::sync::LazyLock;

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::{now, sign_in_failures};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets;

/// Time for which a failed attempt counts.
const WINDOW: TimeDelta = TimeDelta::minutes(10);
/// Maximum failures of an account or an address in that time.
const MAX_FAILURES: u64 = 10;

/// Concurrent password hashes. Each one occupies a processor and 19 MiB.
const MAX_CONCURRENT_HASHES: usize = 4;
static HASH_PERMITS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(MAX_CONCURRENT_HASHES));

/// Waits for a permit to verify a password. Callers release it after the outcome is recorded. It bounds the
/// attempts that pass the check before earlier failures are counted.
///
/// # Errors
/// Never fails in a running server.
pub async fn acquire_permit() -> Result<SemaphorePermit<'static>> {
    HASH_PERMITS.acquire().await.map_err(Error::internal)
}

/// Returns whether a password matches a hash. Takes equally long without a hash.
///
/// # Errors
/// Returns an error if the hash is malformed.
pub async fn verify(password: String, hash: Option<String>) -> Result<bool> {
    let check = tokio::task::spawn_blocking(move || secrets::verify_password(&password, hash.as_deref()));
    Ok(check.await.map_err(Error::internal)??)
}

/// Returns the keys under which failures are counted: the account, even if it does not exist, and the
/// address. Each `context` that accepts passwords counts addresses separately.
#[must_use]
pub fn failure_keys(login: &str, context: &str, address: Option<&str>) -> Vec<String> {
    let account = format!("account:{}", storage::entities::fold(login));
    let address = address.map(|address| format!("{context}:{address}"));
    [Some(account), address]
        .into_iter()
        .flatten()
        .map(|source| secrets::digest(&source))
        .collect()
}

/// Records an attempt as failed and returns the rows. Rejects it if the limit was reached before.
///
/// # Errors
/// [`Error::RateLimited`].
pub async fn record_attempt(backend: &Backend, sources: &[String]) -> Result<Vec<i64>> {
    let instant = now();
    let failure_ids = insert(backend, sources, instant).await?;
    // The row of this attempt is counted as well, so the limit is exceeded from one more than `MAX_FAILURES`
    // rows.
    match check_failures(backend, sources, MAX_FAILURES, instant).await {
        Ok(()) => Ok(failure_ids),
        Err(error) => {
            reset(backend, failure_ids).await?;
            Err(error)
        }
    }
}

/// Rejects an attempt that is not recorded yet if the limit is reached.
///
/// # Errors
/// [`Error::RateLimited`].
pub async fn check_limit(backend: &Backend, sources: &[String]) -> Result<()> {
    check_failures(backend, sources, MAX_FAILURES - 1, now()).await
}

/// Records a failed attempt.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_failure(backend: &Backend, sources: &[String]) -> Result<()> {
    insert(backend, sources, now()).await.map(|_| ())
}

/// Deletes the rows of an attempt.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn reset(backend: &Backend, failure_ids: Vec<i64>) -> Result<()> {
    sign_in_failures::Entity::delete_many()
        .filter(sign_in_failures::Column::Id.is_in(failure_ids))
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
    let mut failure_ids = Vec::with_capacity(sources.len());
    for source in sources {
        let row = sign_in_failures::ActiveModel {
            source: Set(source.clone()),
            failed_at: Set(instant),
            ..Default::default()
        };
        failure_ids.push(row.insert(db).await?.id);
    }
    Ok(failure_ids)
}

/// Rejects an attempt if a source has more than `allowed` failures. The error contains the seconds until one
/// of them expires.
async fn check_failures(
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
