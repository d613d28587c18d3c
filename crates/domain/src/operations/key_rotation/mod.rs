//! Replacement of the encryption key while servers run (ADR 39).
//!
//! A rotation adds a new key to the key file, makes it the current key in the database, encrypts all values with it,
//! and removes the former keys. Each step can be repeated, so the next rotation continues an
//! interrupted one.

mod discard;
mod lock;
mod values;

use std::path::{Path, PathBuf};

use sea_orm::EntityTrait;
use storage::entities::{instances, known_addresses, pending_sign_ins, sessions, sign_in_failures};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::operations::instance_identity::KEY;
use crate::secrets::{self, CurrentKey, EncryptedColumn, KeyFile};

pub use discard::consequence;
pub(super) use lock::KEYS_LOCK;
pub use lock::{KeyLock, lock_for_backup};
pub use values::{ColumnSurvey, UnreadableValue, survey};

/// Options of a rotation.
#[derive(Debug, Clone, Copy, Default)]
pub struct RotationOptions {
    /// If true, only adds the new key to the key file, so that the file can be copied to other nodes.
    pub only_add_key: bool,
    /// If true, removes values that no key can decrypt.
    pub discard_unreadable: bool,
    /// If true, ends all sessions and sign-ins.
    pub end_sessions: bool,
}

/// A completed step of a rotation.
#[derive(Debug)]
pub enum RotationEvent<'a> {
    /// A new key was added to the key file.
    KeyAdded {
        /// The prefix of the fingerprint of the key.
        key: &'a str,
    },
    /// The key file contains a key that is not current yet.
    KeyReady {
        /// The prefix of the fingerprint of the key.
        key: &'a str,
    },
    /// A key became the current one.
    KeySwitched {
        /// The prefix of the fingerprint of the key.
        key: &'a str,
    },
    /// An earlier rotation is continued.
    Continued {
        /// The prefix of the fingerprint of the current key.
        key: &'a str,
    },
    /// The sessions ended.
    SessionsEnded {
        /// The number of sessions.
        count: u64,
    },
    /// The values of a column were encrypted with the current key.
    ValuesEncrypted {
        /// The column.
        column: EncryptedColumn,
        /// The number of values.
        count: u64,
    },
    /// A value cannot be decrypted.
    ValueUnreadable(&'a UnreadableValue),
    /// Values of a column that cannot be decrypted were removed.
    ValuesDiscarded {
        /// The column.
        column: EncryptedColumn,
        /// The number of values.
        count: u64,
    },
    /// Former keys were removed from the key file.
    FormerKeysRemoved {
        /// The number of keys.
        count: usize,
    },
}

/// The result of a rotation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RotationResult {
    /// Number of values that were encrypted with the new key.
    pub encrypted: u64,
    /// Number of values that no key can decrypt and that were not removed.
    pub unreadable: u64,
    /// Number of former keys that the key file still contains.
    pub former_keys: usize,
}

/// Replaces the encryption key, or continues an interrupted rotation. Servers may run. `report` receives each step
/// after it is completed.
///
/// # Errors
/// Returns `Error::Rejected` if another rotation or a backup runs, or if the instance was never started by this
/// version. Returns `Error::Rejected` if values cannot be decrypted before the key is replaced and
/// `discard_unreadable` is false. Returns an error if the database or the key file fails.
pub async fn rotate(
    backend: &Backend,
    data_dir: &Path,
    options: RotationOptions,
    report: &mut dyn FnMut(RotationEvent<'_>),
) -> Result<RotationResult> {
    let _lock = lock::lock_for_rotation(data_dir).await?;
    let path = data_dir.join(KEY);
    let former = instances::key_fingerprint(backend.database.read()).await?;
    let former = former.ok_or_else(|| {
        Error::Rejected(
            "the database does not name the current key; start the server once, and repeat the command"
                .into(),
        )
    })?;
    let keys = read_keys(&path).await?;
    match keys.fingerprints().last() {
        // The last key of the file is the newest one.
        Some(newest) if *newest == former && keys.fingerprints().len() > 1 => {
            if options.only_add_key {
                return Err(Error::Rejected(
                    "the previous rotation is not finished; run the command without --prepare first".into(),
                ));
            }
            report(RotationEvent::Continued {
                key: secrets::shortened(&former),
            });
        }
        newest => {
            let ready = newest.filter(|newest| **newest != former).cloned();
            let key = prepare(backend, keys, ready, options, report).await?;
            if options.only_add_key {
                report(RotationEvent::KeyReady {
                    key: secrets::shortened(&key),
                });
                return Ok(RotationResult::default());
            }
            switch(backend, &former, &key).await?;
            report(RotationEvent::KeySwitched {
                key: secrets::shortened(&key),
            });
        }
    }
    let current = backend.keyring.refreshed(&backend.database).await?;
    delete_digests(backend).await?;
    if options.end_sessions {
        let count = end_sessions(backend).await?;
        report(RotationEvent::SessionsEnded { count });
    }
    let mut result = RotationResult::default();
    for column in EncryptedColumn::all() {
        let (encrypted, unreadable) = values::encrypt_column(backend, column).await?;
        result.encrypted += encrypted;
        if encrypted > 0 {
            report(RotationEvent::ValuesEncrypted {
                column,
                count: encrypted,
            });
        }
        result.unreadable += handle_unreadable(backend, column, &unreadable, options, report).await?;
    }
    let (removed, left) = remove_former_keys(backend, &path, &current).await?;
    if removed > 0 {
        report(RotationEvent::FormerKeysRemoved { count: removed });
    }
    result.former_keys = left;
    Ok(result)
}

/// Returns the fingerprint of a key that is in the key file and not current: `ready` from an interrupted rotation, or
/// a new one.
async fn prepare(
    backend: &Backend,
    mut keys: KeyFile,
    ready: Option<String>,
    options: RotationOptions,
    report: &mut dyn FnMut(RotationEvent<'_>),
) -> Result<String> {
    if !options.discard_unreadable {
        check_readable(backend, report).await?;
    }
    if let Some(ready) = ready {
        return Ok(ready);
    }
    let key = blocking(move || keys.add_key()).await?;
    report(RotationEvent::KeyAdded {
        key: secrets::shortened(&key),
    });
    Ok(key)
}

/// Checks that all values can be decrypted. A former key cannot be removed safely otherwise.
async fn check_readable(backend: &Backend, report: &mut dyn FnMut(RotationEvent<'_>)) -> Result<()> {
    let mut count = 0;
    for unreadable in survey(backend)
        .await?
        .iter()
        .flat_map(|survey| &survey.unreadable)
    {
        report(RotationEvent::ValueUnreadable(unreadable));
        count += 1;
    }
    match count {
        0 => Ok(()),
        count => Err(Error::Rejected(
            format!(
                "no key decrypts {count} encrypted values, so the key was not replaced; restore the key file that \
                 contains their key, or pass --discard-unreadable to remove the values"
            )
            .into(),
        )),
    }
}

/// Makes a key of the key file the current one.
async fn switch(backend: &Backend, former: &str, key: &str) -> Result<()> {
    let replaced = backend
        .database
        .transaction(async |transaction| {
            let is_replaced = instances::replace_key_fingerprint(transaction, former, key).await?;
            if is_replaced {
                let event = AuditEvent::of(AuditKind::EncryptionKeyReplaced, AuditEntity::instance());
                let event = event.from(secrets::shortened(former)).to(secrets::shortened(key));
                audit::record(transaction, Actor::command_line(), event).await?;
            }
            Ok::<_, Error>(is_replaced)
        })
        .await?;
    match replaced {
        true => Ok(()),
        false => Err(Error::Rejected(
            "another node replaced the key at the same time; copy its key file, and repeat the command"
                .into(),
        )),
    }
}

/// Deletes the rows with keyed digests, which cannot be computed again: failed sign-ins count for minutes, and
/// addresses become known again by the next sign-in.
async fn delete_digests(backend: &Backend) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            sign_in_failures::Entity::delete_many().exec(transaction).await?;
            known_addresses::Entity::delete_many().exec(transaction).await?;
            Ok(())
        })
        .await
}

async fn end_sessions(backend: &Backend) -> Result<u64> {
    backend
        .database
        .transaction(async |transaction| {
            let pending = pending_sign_ins::Entity::delete_many().exec(transaction).await?;
            let ended = sessions::Entity::delete_many().exec(transaction).await?;
            if pending.rows_affected + ended.rows_affected > 0 {
                let event = AuditEvent::of(AuditKind::SessionsEnded, AuditEntity::instance());
                let text = format!("{} sessions", ended.rows_affected);
                audit::record(transaction, Actor::command_line(), event.from(text)).await?;
            }
            Ok(ended.rows_affected)
        })
        .await
}

/// Reports the unreadable values of a column, and removes them if requested. Returns the number of values that remain.
async fn handle_unreadable(
    backend: &Backend,
    column: EncryptedColumn,
    unreadable: &[UnreadableValue],
    options: RotationOptions,
    report: &mut dyn FnMut(RotationEvent<'_>),
) -> Result<u64> {
    for value in unreadable {
        report(RotationEvent::ValueUnreadable(value));
    }
    let discarded = match options.discard_unreadable {
        true => discard::discard_all(backend, column, unreadable).await?,
        false => 0,
    };
    if discarded > 0 {
        report(RotationEvent::ValuesDiscarded {
            column,
            count: discarded,
        });
    }
    // A value that was changed in the meantime is readable.
    match options.discard_unreadable {
        true => Ok(0),
        false => Ok(unreadable.len() as u64),
    }
}

/// Removes the keys that no value uses from the key file, except the current one. Returns the number of removed keys
/// and of former keys that remain.
async fn remove_former_keys(backend: &Backend, path: &Path, current: &CurrentKey) -> Result<(usize, usize)> {
    let keys = read_keys(path).await?;
    if keys.fingerprints().len() == 1 {
        return Ok((0, 0));
    }
    // Every transaction that used a former key ended before the new one became current, so this snapshot contains all
    // values with former keys.
    let snapshot = backend.database.snapshot().await?;
    let fingerprint = instances::key_fingerprint(&snapshot).await?;
    let used = values::key_prefixes(&snapshot).await?;
    snapshot.rollback().await?;
    if fingerprint.as_deref() != Some(current.fingerprint()) {
        return Err(Error::Rejected(
            "another node replaced the key at the same time; copy its key file, and repeat the command"
                .into(),
        ));
    }
    let current = current.prefix();
    blocking(move || {
        let mut keys = keys;
        let removed = keys.retain(|prefix| prefix == current || used.contains(prefix))?;
        Ok((removed, keys.fingerprints().len() - 1))
    })
    .await
}

async fn read_keys(path: &Path) -> Result<KeyFile> {
    let path: PathBuf = path.to_owned();
    blocking(move || KeyFile::read(&path)).await
}

async fn blocking<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, secrets::Error> + Send + 'static,
{
    let done = git::run_blocking(work).await.map_err(Error::internal)?;
    Ok(done?)
}
