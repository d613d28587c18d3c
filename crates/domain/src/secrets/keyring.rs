//! Encryption at rest.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sea_orm::DatabaseTransaction;
use storage::database::Database;
use storage::entities::instances;

use super::columns::EncryptionContext;
use super::error::Error;
use super::key::{EncryptedValue, KEY_LENGTH, Key};
use super::key_file::{FileVersion, KeyFile};
use super::secret::Secret;

/// Time after which the current key is compared with the database again. A token that was encrypted with a
/// former key is accepted at most that long.
const MAX_AGE: Duration = Duration::from_millis(500);

/// Time after which the file is read again for an unknown key, even if it does not look changed: a copy can preserve the
/// modification time, and some file systems have times of a second. Values with unknown keys are rare, but a client can
/// send them, so the file is not read each time.
const MAX_FILE_AGE: Duration = Duration::from_secs(60);

/// The keys for encrypting values (XChaCha20-Poly1305). Clones share the keys.
///
/// An encrypted value is `v1.<key ID>.<base64url of nonce and ciphertext>`. The key ID is part of a hash of the
/// key. The ID distinguishes a value that was encrypted with another key from a manipulated value.
///
/// All keys of the key file decrypt values. The database names the current key, which encrypts them. The file is
/// read again when a value or the database names a key that is not known yet, so that running servers follow a
/// rotation (ADR 39).
#[derive(Clone)]
pub struct Keyring(Arc<SharedKeys>);

struct SharedKeys {
    /// The file, unless the keys exist only in memory.
    path: Option<PathBuf>,
    state: RwLock<KeyState>,
}

struct KeyState {
    /// Keys that the file no longer contains, followed by the keys of the file, oldest first. A value that was
    /// read before a rotation may still use a removed key.
    keys: Vec<Arc<Key>>,
    current: Arc<Key>,
    version: Option<FileVersion>,
    /// When the file was last read.
    read_at: Instant,
    /// When the current key was last compared with the database.
    compared_at: Option<Instant>,
}

impl Keyring {
    /// Creates a keyring with keys that exist only in memory, oldest first. The first is current.
    #[must_use]
    pub fn in_memory(keys: &[Secret<[u8; KEY_LENGTH]>]) -> Option<Self> {
        Self::of(
            None,
            keys.iter().map(|key| Key::new(key.expose())).collect(),
            None,
        )
    }

    fn of(path: Option<PathBuf>, keys: Vec<Key>, version: Option<FileVersion>) -> Option<Self> {
        let keys: Vec<Arc<Key>> = keys.into_iter().map(Arc::new).collect();
        let state = KeyState {
            current: Arc::clone(keys.first()?),
            keys,
            version,
            read_at: Instant::now(),
            compared_at: None,
        };
        Some(Self(Arc::new(SharedKeys {
            path,
            state: RwLock::new(state),
        })))
    }

    /// Reads the keys from a file, or creates the file. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::KeyFile`] if the file is malformed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::of_file(path, &KeyFile::open(path)?)
    }

    /// Reads the keys from a file, which must exist. Blocks.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_existing(path: &Path) -> Result<Self, Error> {
        Self::of_file(path, &KeyFile::read(path)?)
    }

    fn of_file(path: &Path, file: &KeyFile) -> Result<Self, Error> {
        let keyring = Self::of(Some(path.to_owned()), file.keys(), Some(file.version()));
        keyring.ok_or_else(|| Error::KeyFile("it has no keys".to_owned()))
    }

    /// Returns the current key as it was last compared with the database.
    pub(super) fn known(&self) -> Arc<Key> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&state.current)
    }

    /// Returns the fingerprint of the current key: a digest in hex, which reveals nothing of the key.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.known().fingerprint.clone()
    }

    /// Returns the current key as it was last compared with the database. For lookups in which a former key finds nothing.
    #[must_use]
    pub fn known_key(&self) -> CurrentKey {
        CurrentKey(self.known())
    }

    /// Makes the key with this fingerprint the current one. Reads the file again if the key is not known.
    ///
    /// # Errors
    /// [`Error::MissingKey`] if the file does not contain the key, and the errors of [`Self::open`].
    pub fn adopt(&self, fingerprint: &str) -> Result<(), Error> {
        self.adopted(fingerprint).map(|_| ())
    }

    /// Makes the key with this fingerprint the current one, and returns it.
    fn adopted(&self, fingerprint: &str) -> Result<Arc<Key>, Error> {
        let of_fingerprint = |key: &Key| key.fingerprint == fingerprint;
        let found = match self.find(of_fingerprint) {
            Some(key) => Some(key),
            None => {
                self.reload()?;
                self.find(of_fingerprint)
            }
        };
        let key = found.ok_or_else(|| Error::MissingKey(shortened(fingerprint).to_owned()))?;
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        let is_start = state.compared_at.is_none();
        state.compared_at = Some(Instant::now());
        if key.id != state.current.id {
            if !is_start {
                tracing::info!(
                    key = key.id,
                    former_key = state.current.id,
                    "adopted a new encryption key"
                );
            }
            state.current = Arc::clone(&key);
        }
        Ok(key)
    }

    fn find(&self, matches: impl Fn(&Key) -> bool) -> Option<Arc<Key>> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        state.keys.iter().find(|key| matches(key)).cloned()
    }

    /// Reads the file again if it changed, or if it was last read a minute ago.
    fn reload(&self) -> Result<(), Error> {
        let Some(path) = &self.0.path else {
            return Ok(());
        };
        let version = FileVersion::read(path)?;
        let is_known =
            |state: &KeyState| state.version == Some(version) && state.read_at.elapsed() < MAX_FILE_AGE;
        if is_known(&self.0.state.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let file = KeyFile::read(path)?;
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        for key in file.keys() {
            if state
                .keys
                .iter()
                .all(|known| known.fingerprint != key.fingerprint)
            {
                state.keys.push(Arc::new(key));
            }
        }
        state.version = Some(file.version());
        state.read_at = Instant::now();
        Ok(())
    }

    /// Compares the current key with the database now, and returns it.
    ///
    /// # Errors
    /// [`Error::Database`], and the errors of [`Self::adopt`].
    pub async fn refreshed(&self, database: &Database) -> Result<CurrentKey, Error> {
        let fingerprint = instances::key_fingerprint(database.read()).await?;
        self.named(fingerprint).map(CurrentKey)
    }

    /// Returns the current key, compared with the database at most half a second ago. For digests and tokens, which
    /// are valid only for the current key.
    ///
    /// # Errors
    /// As [`Self::refreshed`].
    pub async fn current(&self, database: &Database) -> Result<CurrentKey, Error> {
        {
            let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
            if state
                .compared_at
                .is_some_and(|instant| instant.elapsed() < MAX_AGE)
            {
                return Ok(CurrentKey(Arc::clone(&state.current)));
            }
        }
        self.refreshed(database).await
    }

    /// Returns the current key for the values that a transaction writes. A rotation cannot change the current key
    /// until the transaction ends, so that no value is written with a former key later.
    ///
    /// # Errors
    /// As [`Self::refreshed`].
    pub async fn encryptor<'a>(&self, transaction: &'a DatabaseTransaction) -> Result<Encryptor<'a>, Error> {
        let fingerprint = instances::lock_key_fingerprint(transaction).await?;
        Ok(Encryptor {
            key: CurrentKey(self.named(fingerprint)?),
            _transaction: transaction,
        })
    }

    /// Returns the key that a database names. A database of an older version names no key, and its key was never
    /// replaced.
    fn named(&self, fingerprint: Option<String>) -> Result<Arc<Key>, Error> {
        match fingerprint {
            Some(fingerprint) => self.adopted(&fingerprint),
            None => Ok(self.known()),
        }
    }

    /// Decrypts a value that was encrypted for `context`. Reads the file again if the key is not known.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::UnknownKey`], [`Error::Authentication`], and the errors of [`Self::open`].
    pub fn decrypt(
        &self,
        value: &str,
        context: &(impl AsRef<str> + ?Sized),
    ) -> Result<Secret<String>, Error> {
        let value = EncryptedValue::parse(value)?;
        let has_id = |key: &Key| key.id == value.key_id;
        let found = match self.find(has_id) {
            Some(key) => Some(key),
            None => {
                self.reload()?;
                self.find(has_id)
            }
        };
        let key = found.ok_or_else(|| Error::UnknownKey(value.key_id.to_owned()))?;
        key.decrypt(&value, context.as_ref())
    }
}

/// Returns the part of a fingerprint that messages contain.
pub(crate) fn shortened(fingerprint: &str) -> &str {
    fingerprint.get(..16).unwrap_or(fingerprint)
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("current", &self.known().id)
            .finish_non_exhaustive()
    }
}

/// The current key.
#[derive(Clone)]
pub struct CurrentKey(Arc<Key>);

impl CurrentKey {
    #[cfg(test)]
    pub(super) fn of(keyring: &Keyring) -> Self {
        Self(keyring.known())
    }

    /// Returns the fingerprint of the key.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// Returns the prefix of all values that are encrypted with this key.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.0.prefix()
    }

    /// Returns the HMAC-SHA-256 of a value in hex, for values that are only compared and could be guessed from an
    /// ordinary digest, such as network addresses. Digests of different contexts differ, and replacing the key
    /// changes all of them: a rotation deletes the rows with digests.
    #[must_use]
    pub fn keyed_digest(&self, value: &str, context: &str) -> String {
        self.0.digest(value, context)
    }

    /// Encrypts a token that is sent to a client and never stored.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the value exceeds 256 GB.
    pub fn seal_token(&self, value: &str, kind: &str) -> Result<String, Error> {
        self.0.encrypt(value, kind)
    }

    /// Returns whether a token contains the ID of this key.
    #[must_use]
    pub fn has_sealed(&self, token: &str) -> bool {
        EncryptedValue::parse(token).is_ok_and(|value| value.key_id == self.0.id)
    }

    /// Decrypts a token of [`Self::seal_token`] with this key only.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::UnknownKey`], [`Error::Authentication`].
    pub fn open_token(&self, token: &str, kind: &str) -> Result<Secret<String>, Error> {
        let value = EncryptedValue::parse(token)?;
        if value.key_id != self.0.id {
            return Err(Error::UnknownKey(value.key_id.to_owned()));
        }
        self.0.decrypt(&value, kind)
    }
}

/// The current key, which stays current until a transaction ends.
pub struct Encryptor<'a> {
    key: CurrentKey,
    _transaction: &'a DatabaseTransaction,
}

impl Encryptor<'_> {
    /// Encrypts a value that the transaction stores.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the value exceeds 256 GB.
    pub fn encrypt(&self, value: &str, context: &EncryptionContext) -> Result<String, Error> {
        self.key.0.encrypt(value, context.as_ref())
    }

    /// Returns a digest of the current key, as [`CurrentKey::keyed_digest`].
    #[must_use]
    pub fn keyed_digest(&self, value: &str, context: &str) -> String {
        self.key.keyed_digest(value, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_that_the_file_system_does_not_show_is_found_after_a_minute() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let server = Keyring::open(&path).unwrap();
        let other = [9; KEY_LENGTH];
        std::fs::write(&path, other).unwrap();
        let sealed = Key::new(&other).encrypt("value", "p").unwrap();
        // As if the version of the file were the same.
        server.0.state.write().unwrap().version = Some(FileVersion::read(&path).unwrap());
        assert!(matches!(server.decrypt(&sealed, "p"), Err(Error::UnknownKey(_))));
        let before = Instant::now().checked_sub(MAX_FILE_AGE).unwrap();
        server.0.state.write().unwrap().read_at = before;
        assert_eq!(server.decrypt(&sealed, "p").unwrap().expose(), "value");
    }
}
