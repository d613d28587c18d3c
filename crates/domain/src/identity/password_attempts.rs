//! Verifies passwords, and limits the failures to prove a password, a second factor or the secret of an
//! application.
//!
//! A failure counts for ten minutes under three limits: of its address, of the account from that address, and of
//! the account from all addresses. The third limit is larger: it stops guesses from many addresses. It does not
//! apply at addresses that are known for the account, so that strangers cannot lock its user out.
//!
//! An account is counted under the login that was sent, whether or not it exists. If user name and email address
//! were counted together, the limit would reveal which address belongs to which user.

use std::collections::HashMap;
use std::sync::LazyLock;

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbBackend, EntityTrait,
    QueryFilter, QuerySelect, Select,
};
use storage::clock::scheduling_time;
use storage::entities::related_rows::{RelatedPart, RelatedRow};
use storage::entities::{fold, sign_in_failures, users};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::identity::known_addresses;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::{self, CurrentKey};

/// Time for which a failed attempt counts.
const WINDOW: TimeDelta = TimeDelta::minutes(10);
/// Maximum failures in that time: of an address, of an account from one address, and of an application.
const MAX_FAILURES: u64 = 10;
/// Maximum failures of an account in that time, from all addresses.
const MAX_ACCOUNT_FAILURES: u64 = 50;
/// Maximum sign-ins of a user with the correct password in that time. Each sign-in stores a session and audit events.
const MAX_SIGN_INS: u64 = 30;

/// Concurrent password hashes. Each one occupies a processor and 19 MiB.
const MAX_CONCURRENT_HASHES: usize = 4;
static HASH_PERMITS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(MAX_CONCURRENT_HASHES));

/// Interface that accepts credentials. Each one counts addresses separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialContext {
    /// The sign-in page.
    SignIn,
    /// Git over HTTP and the container registry.
    Git,
    /// The endpoints for OAuth applications.
    Oauth,
    /// Codes and passwords of users who signed in before.
    SecondFactor,
}

impl CredentialContext {
    fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::Git => "git",
            Self::Oauth => "oauth",
            Self::SecondFactor => "second_factor",
        }
    }
}

/// Source of an attempt, under which its failure is counted.
#[derive(Debug)]
pub struct AttemptSource {
    /// The keyed digest of the account.
    account: String,
    /// The keyed digest of the address.
    address: Option<String>,
    context: CredentialContext,
    max_account_failures: u64,
    /// The user and the address, if there are both.
    user_at: Option<(i64, String)>,
}

impl AttemptSource {
    /// Returns the source of an attempt to prove the password of a user, who may not exist.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn of_login(
        backend: &Backend,
        context: CredentialContext,
        login: &str,
        user: Option<&users::Model>,
        address: Option<&str>,
    ) -> Result<Self> {
        let key = backend.keyring.current(&backend.database).await?;
        Ok(Self {
            account: user_account(&key, login),
            address: address.map(|address| address_digest(&key, address)),
            context,
            max_account_failures: MAX_ACCOUNT_FAILURES,
            user_at: user
                .zip(address)
                .map(|(user, address)| (user.id, address.to_owned())),
        })
    }

    /// Returns the source of an attempt to prove the secret of an application.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn of_application(backend: &Backend, uid: &str, address: Option<&str>) -> Result<Self> {
        let key = backend.keyring.current(&backend.database).await?;
        Ok(Self {
            account: account_digest(&key, "application", uid),
            address: address.map(|address| address_digest(&key, address)),
            context: CredentialContext::Oauth,
            max_account_failures: MAX_FAILURES,
            user_at: None,
        })
    }

    /// Returns the source of an attempt to prove the second factor of a user who signs in. A code has only a million
    /// values, so the limit for all addresses is low, and no address is exempt. Only a client that knows the password
    /// can reach it.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn of_second_factor(backend: &Backend, user_id: i64, address: Option<&str>) -> Result<Self> {
        let key = backend.keyring.current(&backend.database).await?;
        Ok(Self {
            account: account_digest(&key, "second_factor", &user_id.to_string()),
            address: address.map(|address| address_digest(&key, address)),
            context: CredentialContext::SecondFactor,
            max_account_failures: MAX_FAILURES,
            user_at: None,
        })
    }

    /// Returns the source of an attempt of a signed-in user to prove the current password.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn of_current_password(backend: &Backend, user_id: i64) -> Result<Self> {
        Self::of_signed_in_user(backend, "current_password", user_id).await
    }

    /// Returns the source of an attempt of a signed-in user to prove the second factor before it is changed.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn of_second_factor_change(backend: &Backend, user_id: i64) -> Result<Self> {
        Self::of_signed_in_user(backend, "second_factor_change", user_id).await
    }

    /// Returns a source that is counted separately from sign-ins, so that a client with a stolen token or session
    /// cannot lock the user out.
    async fn of_signed_in_user(backend: &Backend, kind: &str, user_id: i64) -> Result<Self> {
        let key = backend.keyring.current(&backend.database).await?;
        Ok(Self {
            account: account_digest(&key, kind, &user_id.to_string()),
            address: None,
            context: CredentialContext::SecondFactor,
            max_account_failures: MAX_FAILURES,
            user_at: None,
        })
    }

    /// Returns the source of sign-ins of a user with the correct password, which count like failures: they store rows,
    /// also if the account is blocked or a second factor is missing.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn of_sign_in(backend: &Backend, user_id: i64) -> Result<Self> {
        Self::counted(backend, "correct_password", &user_id.to_string(), MAX_SIGN_INS).await
    }

    /// Returns the source of audit events of one kind, of which `limit` are recorded.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub(super) async fn of_audit_events(backend: &Backend, name: &str, limit: u64) -> Result<Self> {
        Self::counted(backend, "audit_event", name, limit).await
    }

    /// Returns a source whose attempts have a limit for all addresses together.
    async fn counted(backend: &Backend, kind: &str, name: &str, limit: u64) -> Result<Self> {
        let key = backend.keyring.current(&backend.database).await?;
        Ok(Self {
            account: account_digest(&key, kind, name),
            address: None,
            context: CredentialContext::SignIn,
            max_account_failures: limit,
            user_at: None,
        })
    }

    async fn is_known(&self, backend: &Backend) -> Result<bool> {
        match &self.user_at {
            Some((user_id, address)) => known_addresses::is_known(backend, *user_id, address).await,
            None => Ok(false),
        }
    }
}

fn user_account(key: &CurrentKey, login: &str) -> String {
    account_digest(key, "user", &fold(login))
}

fn account_digest(key: &CurrentKey, kind: &str, name: &str) -> String {
    key.keyed_digest(&format!("{kind}:{name}"), "sign_in_failures.account")
}

fn address_digest(key: &CurrentKey, address: &str) -> String {
    key.keyed_digest(address, "sign_in_failures.address")
}

/// The accounts of users that can reach the limit for all addresses together.
#[derive(Debug)]
pub struct LockableAccounts {
    /// The user and the limit of each account, by the digest of the account.
    users: HashMap<String, (i64, u64)>,
}

impl LockableAccounts {
    /// Returns the accounts of users.
    #[must_use]
    pub fn of_users<'a>(backend: &Backend, users: impl IntoIterator<Item = &'a users::Model>) -> Self {
        let key = backend.keyring.known_key();
        let accounts = users.into_iter().flat_map(|user| {
            let factor = account_digest(&key, "second_factor", &user.id.to_string());
            [
                (
                    user_account(&key, &user.username),
                    (user.id, MAX_ACCOUNT_FAILURES),
                ),
                (user_account(&key, &user.email), (user.id, MAX_ACCOUNT_FAILURES)),
                (factor, (user.id, MAX_FAILURES)),
            ]
        });
        Self {
            users: accounts.collect(),
        }
    }

    /// Returns a part with the numbers of failures, which [`Self::locked`] reads.
    #[must_use]
    pub fn part(&self, database: DbBackend) -> Option<RelatedPart> {
        let accounts = self.users.keys().cloned().collect();
        let since = scheduling_time() - WINDOW;
        sign_in_failures::counts_part(
            database,
            accounts,
            since,
            i64::try_from(MAX_FAILURES).unwrap_or(i64::MAX),
        )
    }

    /// Returns the IDs of the users with an account that has reached its limit.
    pub fn locked(&self, rows: Vec<RelatedRow>) -> impl Iterator<Item = i64> {
        rows.into_iter().filter_map(|row| {
            let [account, ..] = row.texts;
            let (user_id, limit) = *self.users.get(account.as_deref()?)?;
            let count = u64::try_from(row.number?).ok()?;
            (count >= limit).then_some(user_id)
        })
    }
}

/// Waits for a permit to verify a password. Callers release it after the outcome is recorded. It bounds the
/// attempts that pass the check before earlier failures are counted, and the rate at which rows are inserted.
///
/// # Errors
/// Never fails in a running server.
pub async fn acquire_permit() -> Result<SemaphorePermit<'static>> {
    HASH_PERMITS.acquire().await.map_err(Error::internal)
}

/// Returns the user if the password is theirs, as they are after the verification: the row that was read before
/// may have changed since. Returns `None` if the password is wrong, and if it was replaced or the user was
/// deleted in the meantime. Takes equally long without a user. The permit is returned with the outcome.
///
/// # Errors
/// Returns an error if the hash is malformed or the database fails.
pub async fn verify(
    backend: &Backend,
    permit: SemaphorePermit<'static>,
    password: String,
    user: Option<users::Model>,
) -> Result<(Option<users::Model>, SemaphorePermit<'static>)> {
    let user = user.filter(|user| !user.bot);
    let hash = user.as_ref().and_then(|user| user.password_hash.clone());
    let verified_hash = hash.clone();
    let (matches, permit) = verify_hash(permit, password, hash).await?;
    let Some(user) = user.filter(|_| matches) else {
        return Ok((None, permit));
    };
    let found = users::not_deleted()
        .filter(users::Column::Id.eq(user.id))
        .one(backend.database.read())
        .await?;
    Ok((found.filter(|user| user.password_hash == verified_hash), permit))
}

/// Returns whether a password matches a hash, and the permit. The thread owns the permit: a client that
/// disconnects does not stop the hash, so it must not allow another one to start.
async fn verify_hash(
    permit: SemaphorePermit<'static>,
    password: String,
    hash: Option<String>,
) -> Result<(bool, SemaphorePermit<'static>)> {
    let check = tokio::task::spawn_blocking(move || {
        let matches = secrets::verify_password(&password, hash.as_deref());
        (matches, permit)
    });
    let (matches, permit) = check.await.map_err(Error::internal)?;
    Ok((matches?, permit))
}

/// Rejects an attempt that is not recorded yet if a limit is reached.
///
/// # Errors
/// [`Error::RateLimited`].
pub async fn check_limits(backend: &Backend, source: &AttemptSource) -> Result<()> {
    check_failures(backend, source, 0, scheduling_time()).await
}

/// Records an attempt as failed and returns the ID of the row. Rejects it if a limit was reached before.
///
/// # Errors
/// [`Error::RateLimited`].
pub async fn record_attempt(backend: &Backend, source: &AttemptSource) -> Result<i64> {
    let instant = scheduling_time();
    let failure_id = insert(backend, source, instant).await?;
    match check_failures(backend, source, 1, instant).await {
        Ok(()) => Ok(failure_id),
        Err(error) => {
            reset(backend, failure_id).await?;
            Err(error)
        }
    }
}

/// Records a failed attempt.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_failure(backend: &Backend, source: &AttemptSource) -> Result<()> {
    insert(backend, source, scheduling_time()).await.map(|_| ())
}

/// Deletes the row of an attempt that succeeded.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn reset(backend: &Backend, failure_id: i64) -> Result<()> {
    sign_in_failures::Entity::delete_by_id(failure_id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// Deletes the failures of a user. They no longer count for the addresses either: otherwise a user could not
/// sign in at the address of the failures.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn delete_all(
    transaction: &DatabaseTransaction,
    key: &CurrentKey,
    user: &users::Model,
) -> Result<()> {
    let logins = [&user.username, &user.email].map(|login| user_account(key, login));
    let id = user.id.to_string();
    let kinds = [
        "second_factor",
        "second_factor_change",
        "current_password",
        "correct_password",
    ];
    let proofs = kinds.map(|kind| account_digest(key, kind, &id));
    let accounts = logins.into_iter().chain(proofs);
    sign_in_failures::Entity::delete_many()
        .filter(sign_in_failures::Column::Account.is_in(accounts))
        .exec(transaction)
        .await?;
    Ok(())
}

async fn insert(backend: &Backend, source: &AttemptSource, instant: DateTime<Utc>) -> Result<i64> {
    let db = backend.database.write();
    sign_in_failures::Entity::delete_many()
        .filter(sign_in_failures::Column::FailedAt.lte(instant - WINDOW))
        .exec(db)
        .await?;
    let row = sign_in_failures::ActiveModel {
        account: Set(source.account.clone()),
        address: Set(source.address.clone()),
        context: Set(source.context.name().to_owned()),
        failed_at: Set(instant),
        ..Default::default()
    };
    Ok(row.insert(db).await?.id)
}

/// Rejects an attempt if a limit is reached by failures before it. `recorded` is the number of rows of the
/// attempt itself. The error contains the seconds until the attempt is allowed.
async fn check_failures(
    backend: &Backend,
    source: &AttemptSource,
    recorded: u64,
    instant: DateTime<Utc>,
) -> Result<()> {
    let since = instant - WINDOW;
    let mut longest: Option<u64> = None;
    if let Some(address) = &source.address {
        let of_address = sign_in_failures::of_address(address, source.context.name(), since);
        let of_account = sign_in_failures::of_account_at(&source.account, address, since);
        for failures in [of_address, of_account] {
            longest = longest.max(seconds_left(backend, failures, MAX_FAILURES + recorded, instant).await?);
        }
    }
    let failures = sign_in_failures::of_account(&source.account, since);
    let limit = source.max_account_failures + recorded;
    let from_everywhere = seconds_left(backend, failures, limit, instant).await?;
    if from_everywhere.is_some() && !source.is_known(backend).await? {
        longest = longest.max(from_everywhere);
    }
    match longest {
        Some(seconds) => Err(Error::RateLimited(seconds)),
        None => Ok(()),
    }
}

/// Returns the seconds until there are fewer than `limit` failures; `None` if there are fewer.
async fn seconds_left(
    backend: &Backend,
    failures: Select<sign_in_failures::Entity>,
    limit: u64,
    instant: DateTime<Utc>,
) -> Result<Option<u64>> {
    let oldest = failures
        .offset(limit.saturating_sub(1))
        .limit(1)
        .one(backend.database.read())
        .await?;
    Ok(oldest.map(|oldest| {
        let wait = (oldest.failed_at + WINDOW - instant).num_seconds();
        u64::try_from(wait).unwrap_or(0).saturating_add(1)
    }))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn disconnected_client_does_not_release_permit_before_its_hash() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            // Occupies the only thread, so that the hashes start after the attempts are dropped.
            let (release, released) = std::sync::mpsc::channel::<()>();
            let occupied = tokio::task::spawn_blocking(move || released.recv());
            for _ in 0..MAX_CONCURRENT_HASHES {
                let permit = acquire_permit().await.unwrap();
                let attempt = verify_hash(permit, "a password".to_owned(), None);
                assert!(attempt.now_or_never().is_none());
            }
            assert!(HASH_PERMITS.try_acquire().is_err());
            release.send(()).unwrap();
            occupied.await.unwrap().unwrap();
            let all = u32::try_from(MAX_CONCURRENT_HASHES).unwrap();
            assert!(HASH_PERMITS.acquire_many(all).await.is_ok());
        });
    }
}
