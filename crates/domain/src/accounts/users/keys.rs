//! SSH keys of users.

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter,
    QuerySelect,
};
use storage::database::Violation;
use storage::entities::taken_fingerprints::{self, FingerprintOwner};
use storage::entities::user_keys::{self, Column, Entity, KeyUsage, Model};
use storage::entities::{now, users};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::public_keys::ssh::{PublicKey, malformed};
use crate::kernel::query::page_of;

/// Maximum number of keys of a user.
const MAX_KEYS: u64 = 100;

/// Lists a user's keys in the order of creation.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list(backend: &Backend, user_id: i64, page: &PageRequest) -> Result<Page<Model>> {
    page_of(backend.database.read(), user_keys::of_user(user_id), page).await
}

/// A key to add.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The name that the owner chose.
    pub title: String,
    /// The public key in OpenSSH format.
    pub key: String,
    /// When the key expires.
    pub expires_at: Option<DateTime<Utc>>,
    /// The permitted use.
    pub usage_type: KeyUsage,
}

/// Returns the public keys with which the user with this name can authenticate, in the format of `authorized_keys`, one
/// in each line. Expired keys are omitted.
///
/// # Errors
/// Returns `NotFound` if the user does not exist.
pub async fn authorized_keys(backend: &Backend, username: &str) -> Result<String> {
    let db = backend.database.read();
    let user = users::by_username(db, username).await?;
    let user = user.ok_or_else(|| Error::not_found("User"))?;
    let keys = user_keys::of_user(user.id)
        .filter(Column::UsageType.ne(KeyUsage::Signing))
        .limit(MAX_KEYS)
        .all(db)
        .await?;
    let now = now();
    let valid = keys.into_iter().filter(|key| !key.is_expired_at(now));
    Ok(valid.map(|key| format!("{}\n", key.key)).collect())
}

/// Returns a key of a user.
///
/// # Errors
/// Returns `NotFound` if the key does not exist.
pub async fn get(backend: &Backend, user_id: i64, id: i64) -> Result<Model> {
    let found = user_keys::of_user(user_id)
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    found.ok_or_else(|| Error::not_found("Key"))
}

/// Adds a key to a user.
///
/// # Errors
/// Returns a validation error for an invalid, expired or registered key, and beyond the maximum number. Returns
/// `NotFound` if the user was deleted in the meantime.
pub async fn add(backend: &Backend, actor: &Actor, user_id: i64, new: NewKey) -> Result<Model> {
    let key = PublicKey::parse(&new.key).ok_or_else(|| malformed(""))?;
    let at = now();
    if new.expires_at.is_some_and(|end| end <= at) {
        return Err(Error::attribute("key", "has expired"));
    }
    let row = user_keys::ActiveModel {
        user_id: Set(user_id),
        title: Set(new.title),
        key: Set(key.text),
        fingerprint: Set(key.fingerprint),
        created_at: Set(at),
        expires_at: Set(new.expires_at),
        usage_type: Set(new.usage_type),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            // Lock the user, so that parallel requests cannot exceed the limit together.
            let user = users::lock(transaction, user_id).await?;
            let user = user.ok_or_else(|| Error::not_found("User"))?;
            if user_keys::of_user(user_id).count(transaction).await? >= MAX_KEYS {
                let text = format!("are too many (maximum is {MAX_KEYS})");
                return Err(Error::attribute("keys", text));
            }
            let key = row.insert(transaction).await.map_err(map_insert_error)?;
            let owner = FingerprintOwner::UserKey(key.id);
            taken_fingerprints::take(transaction, &key.fingerprint, owner)
                .await
                .map_err(map_insert_error)?;
            audit::record(transaction, actor, event(AuditKind::UserKeyAdded, &user, &key)).await?;
            Ok(key)
        })
        .await
}

fn event(kind: AuditKind, user: &users::Model, key: &Model) -> AuditEvent {
    let target = AuditTarget::new("Key", key.id, format!("{} {}", key.title, key.fingerprint));
    AuditEvent::new(kind, AuditEntity::user(user), target)
}

/// Maps the error of an insert.
fn map_insert_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::attribute("fingerprint", "has already been taken"),
        _ => error.into(),
    }
}

/// Deletes a key of a user.
///
/// # Errors
/// Returns `NotFound` if the key does not exist, or `PreconditionFailed` if it was created after the given
/// date.
pub async fn remove(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    id: i64,
    since: Option<&str>,
) -> Result<()> {
    let key = get(backend, user.id, id).await?;
    check_unmodified_since(since, key.created_at)?;
    backend
        .database
        .transaction(async |transaction| {
            let done = Entity::delete_by_id(key.id).exec(transaction).await?;
            match done.rows_affected {
                0 => Err(Error::not_found("Key")),
                _ => audit::record(transaction, actor, event(AuditKind::UserKeyRemoved, user, &key)).await,
            }
        })
        .await
}
