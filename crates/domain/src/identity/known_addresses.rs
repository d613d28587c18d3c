//! Network addresses from which a user recently proved the current password. Failures of strangers do not lock
//! a user out there.
//!
//! Only keyed digests are stored: an address could be guessed from an ordinary digest.

use std::net::IpAddr;

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::known_addresses::{ActiveModel, Column, Entity, Model, of_user};
use storage::entities::{now, users};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::secrets::Keyring;

/// Time for which an address is known after its last use.
const RETENTION: TimeDelta = TimeDelta::days(90);
/// Maximum number of known addresses of a user; the address with the oldest use is replaced.
const MAX_ADDRESSES: u64 = 10;
/// How long the last use stays unchanged before it is written again by clients that send the password with
/// every request.
const USE_GRANULARITY: TimeDelta = TimeDelta::days(1);

/// Returns whether an address is known for a user.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn is_known(backend: &Backend, user_id: i64, address: &str) -> Result<bool> {
    let found = find(backend, user_id, address).await?;
    Ok(found.is_some_and(|known| known.used_at > now() - RETENTION))
}

async fn find(backend: &Backend, user_id: i64, address: &str) -> Result<Option<Model>> {
    let key = backend.keyring.current(&backend.database).await?;
    let found = of_user(user_id)
        .filter(Column::Digest.eq(key.keyed_digest(address, &context(user_id))))
        .one(backend.database.read())
        .await?;
    Ok(found)
}

/// Returns the context of the digests of a user's addresses. It differs for each user, so that rows of two users
/// cannot be linked.
fn context(user_id: i64) -> String {
    format!("known_addresses.digest:{user_id}")
}

/// Returns whether the use of an address is to be recorded: at most once a day for each address.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn is_new_use(backend: &Backend, user: &users::Model, address: &str) -> Result<bool> {
    let found = find(backend, user.id, address).await?;
    Ok(found.is_none_or(|known| known.used_at <= now() - USE_GRANULARITY))
}

/// Records an address of a user whose password was verified.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn record_use(
    backend: &Backend,
    verified: &users::Model,
    address: &str,
    ip_address: Option<IpAddr>,
) -> Result<()> {
    let instant = now();
    backend
        .database
        .transaction(async |transaction| {
            let user = users::lock(transaction, verified.id).await?;
            // An address is known only for the current password.
            let Some(user) = user.filter(|user| user.password_hash == verified.password_hash) else {
                return Ok(());
            };
            users::record_activity(transaction, &user, instant.date_naive()).await?;
            record(transaction, &backend.keyring, verified.id, address, instant).await?;
            let event = AuditEvent::of(AuditKind::GitPasswordUsed, AuditEntity::user(verified));
            audit::record(transaction, Actor::user(verified, ip_address), event).await
        })
        .await
}

/// Records an address of a user who is locked. Deletes expired addresses, and the oldest ones of the user beyond
/// the maximum number.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn record(
    transaction: &DatabaseTransaction,
    keyring: &Keyring,
    user_id: i64,
    address: &str,
    instant: DateTime<Utc>,
) -> Result<()> {
    Entity::delete_many()
        .filter(Column::UsedAt.lte(instant - RETENTION))
        .exec(transaction)
        .await?;
    let encryptor = keyring.encryptor(transaction).await?;
    let row = ActiveModel {
        user_id: Set(user_id),
        digest: Set(encryptor.keyed_digest(address, &context(user_id))),
        used_at: Set(instant),
        ..Default::default()
    };
    let on_conflict = OnConflict::columns([Column::UserId, Column::Digest])
        .update_column(Column::UsedAt)
        .to_owned();
    Entity::insert(row)
        .on_conflict(on_conflict)
        .exec_without_returning(transaction)
        .await?;
    let surplus: Vec<i64> = of_user(user_id)
        .select_only()
        .column(Column::Id)
        .offset(MAX_ADDRESSES)
        // SQLite requires a limit with an offset.
        .limit(MAX_ADDRESSES)
        .into_tuple()
        .all(transaction)
        .await?;
    if surplus.is_empty() {
        return Ok(());
    }
    Entity::delete_many()
        .filter(Column::Id.is_in(surplus))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Deletes the known addresses of a user.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn delete_all(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    Entity::delete_many()
        .filter(Column::UserId.eq(user_id))
        .exec(transaction)
        .await?;
    Ok(())
}
