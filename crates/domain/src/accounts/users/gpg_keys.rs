//! OpenPGP keys of users, which verify the signatures of commits.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter,
    QuerySelect,
};
use storage::database::Violation;
use storage::entities::gpg_keys::{self, Column, Entity, Model};
use storage::entities::{gpg_key_ids, now, users};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::public_keys::openpgp::{BEGIN, END, PublicKey};
use crate::kernel::query::page_of;

/// Maximum number of keys of a user.
const MAX_KEYS: u64 = 100;
/// Maximum number of parts of a key that can sign.
const MAX_SIGNING_KEYS: usize = 50;

/// Reason why a key is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRemoval {
    /// It is not needed any more.
    Deletion,
    /// Signatures by it are not trusted any more.
    Revocation,
}

/// Lists a user's keys in the order of creation.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list(backend: &Backend, user_id: i64, page: &PageRequest) -> Result<Page<Model>> {
    page_of(backend.database.read(), gpg_keys::of_user(user_id), page).await
}

/// Returns all public keys of the user with this name, one after the other.
///
/// # Errors
/// Returns `NotFound` if the user does not exist.
pub async fn armored_keys(backend: &Backend, username: &str) -> Result<String> {
    let db = backend.database.read();
    let user = users::by_username(db, username).await?;
    let user = user.ok_or_else(|| Error::not_found("User"))?;
    let keys = gpg_keys::of_user(user.id).limit(MAX_KEYS).all(db).await?;
    Ok(keys.into_iter().map(|key| format!("{}\n", key.key)).collect())
}

/// Returns a key of a user.
///
/// # Errors
/// Returns `NotFound` if the key does not exist.
pub async fn get(backend: &Backend, user_id: i64, id: i64) -> Result<Model> {
    let found = gpg_keys::of_user(user_id)
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    found.ok_or_else(|| Error::not_found("GPG Key"))
}

/// Adds a key to a user.
///
/// # Errors
/// Returns a validation error for an invalid key, for one that is already registered, and beyond the maximum number. Returns
/// `NotFound` if the user was deleted in the meantime.
pub async fn add(backend: &Backend, actor: &Actor, user_id: i64, key: String) -> Result<Model> {
    // The verification of its signatures needs milliseconds.
    let parsed = tokio::task::spawn_blocking(move || parse(&key)).await;
    let (row, key_ids) = parsed.map_err(Error::internal)??;
    let row = gpg_keys::ActiveModel {
        user_id: Set(user_id),
        ..row
    };
    backend
        .database
        .transaction(async |transaction| {
            // Lock the user, so that parallel requests cannot exceed the limit together.
            let user = users::lock(transaction, user_id).await?;
            let user = user.ok_or_else(|| Error::not_found("User"))?;
            if gpg_keys::of_user(user_id).count(transaction).await? >= MAX_KEYS {
                let text = format!("are too many (maximum is {MAX_KEYS})");
                return Err(Error::attribute("gpg_keys", text));
            }
            let key = row.insert(transaction).await.map_err(map_insert_error)?;
            let ids = key_ids.iter().map(|key_id| gpg_key_ids::ActiveModel {
                gpg_key_id: Set(key.id),
                key_id: Set(key_id.clone()),
                ..Default::default()
            });
            gpg_key_ids::Entity::insert_many(ids)
                .exec_without_returning(transaction)
                .await?;
            let event = event(AuditKind::GpgKeyAdded, &user, &key);
            audit::record(transaction, actor, event).await?;
            Ok(key)
        })
        .await
}

/// Returns the row of a key, without its user, and the key IDs of its parts that can sign.
fn parse(text: &str) -> Result<(gpg_keys::ActiveModel, Vec<String>)> {
    let invalid = |reason: String| Error::attribute("key", reason);
    let key = PublicKey::parse(text).ok_or_else(|| {
        invalid(format!(
            "is invalid. A valid public GPG key begins with '{BEGIN}' and ends with '{END}'"
        ))
    })?;
    let at = now();
    if !key.is_usable(at) {
        return Err(invalid("is expired or revoked, or has no user ID".to_owned()));
    }
    let mut key_ids = key.signing_key_ids();
    key_ids.sort_unstable();
    key_ids.dedup();
    if key_ids.len() > MAX_SIGNING_KEYS {
        return Err(invalid(format!(
            "has too many subkeys (maximum is {MAX_SIGNING_KEYS})"
        )));
    }
    let row = gpg_keys::ActiveModel {
        key: Set(text.trim().to_owned()),
        fingerprint: Set(key.fingerprint()),
        created_at: Set(at),
        ..Default::default()
    };
    Ok((row, key_ids))
}

fn event(kind: AuditKind, user: &users::Model, key: &Model) -> AuditEvent {
    let target = AuditTarget::new("GPG key", key.id, key.fingerprint.clone());
    AuditEvent::new(kind, AuditEntity::user(user), target)
}

/// Maps the error of an insert.
fn map_insert_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::attribute("fingerprint", "has already been taken"),
        _ => error.into(),
    }
}

/// Removes a key of a user.
///
/// # Errors
/// Returns `NotFound` if the key does not exist, or `PreconditionFailed` if it was created after the given date.
pub async fn remove(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    id: i64,
    removal: KeyRemoval,
    since: Option<&str>,
) -> Result<()> {
    let key = get(backend, user.id, id).await?;
    check_unmodified_since(since, key.created_at)?;
    let kind = match removal {
        KeyRemoval::Deletion => AuditKind::GpgKeyRemoved,
        KeyRemoval::Revocation => AuditKind::GpgKeyRevoked,
    };
    backend
        .database
        .transaction(async |transaction| {
            let done = Entity::delete_by_id(key.id).exec(transaction).await?;
            match done.rows_affected {
                0 => Err(Error::not_found("GPG Key")),
                _ => audit::record(transaction, actor, event(kind, user, &key)).await,
            }
        })
        .await
}
