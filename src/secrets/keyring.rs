//! Encryption at rest.

use std::{
    fmt,
    fs::File,
    io::{ErrorKind, Read, Write},
    path::Path,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};

use super::{Error, Secret, token::digest_bytes};

/// The length of a key in bytes.
pub const KEY_LENGTH: usize = 32;

/// The form of encrypted values; another would be added beside it, never in its place.
const VERSION: &str = "v1";
const NONCE_LENGTH: usize = 24;

/// The keys that values are encrypted with (XChaCha20-Poly1305).
///
/// An encrypted value is `v1.<key id>.<base64url of nonce and ciphertext>`. The key id is part of a hash of
/// the key, so that a value made with another key is told apart from one that was tampered with, and keys can
/// be replaced: see [`Keyring::with_previous`].
#[derive(Clone)]
pub struct Keyring {
    current: Key,
    previous: Vec<Key>,
}

impl Keyring {
    /// A ring with a key that was given, such as from the configuration.
    pub fn new(key: &Secret<[u8; KEY_LENGTH]>) -> Self {
        Self {
            current: Key::new(key.expose()),
            previous: Vec::new(),
        }
    }

    /// Adds a key that was replaced: values made with it can still be read.
    #[must_use]
    pub fn with_previous(mut self, key: &Secret<[u8; KEY_LENGTH]>) -> Self {
        self.previous.push(Key::new(key.expose()));
        self
    }

    /// Reads the key from a file, or makes one there: readable by its owner only, and whole or not at all,
    /// also when several processes start at once. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::KeyLength`] when the file does not hold exactly a key.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match read_key(path) {
            Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            found => return Ok(Self::new(&found?)),
        }
        match create_key(path) {
            // Somebody else was faster; theirs is the key.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
        Ok(Self::new(&read_key(path)?))
    }

    /// Reads the key from a file, which must exist. Blocks.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_existing(path: &Path) -> Result<Self, Error> {
        Ok(Self::new(&read_key(path)?))
    }

    /// A digest of the key in hex, which reveals nothing of it: a key is 32 random bytes.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.current.fingerprint
    }

    /// Encrypts a value for one place, named by `place` (such as `projects.runners_token:7`); it can be
    /// decrypted only for the same place, so that rows cannot be swapped by who can write to the database.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the value is beyond 256 GB.
    pub fn encrypt(&self, value: &str, place: &str) -> Result<String, Error> {
        let nonce: [u8; NONCE_LENGTH] = rand::random();
        let payload = Payload {
            msg: value.as_bytes(),
            aad: place.as_bytes(),
        };
        let sealed = self
            .current
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| Error::Malformed)?;
        let body = URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat());
        Ok(format!("{VERSION}.{}.{body}", self.current.id))
    }

    /// Decrypts a value that was encrypted for `place`.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::UnknownKey`], [`Error::Authentication`].
    pub fn decrypt(&self, value: &str, place: &str) -> Result<Secret<String>, Error> {
        let mut parts = value.splitn(3, '.');
        let (Some(VERSION), Some(id), Some(body)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Error::Malformed);
        };
        let key = std::iter::once(&self.current)
            .chain(&self.previous)
            .find(|key| key.id == id)
            .ok_or_else(|| Error::UnknownKey(id.to_owned()))?;
        let body = URL_SAFE_NO_PAD.decode(body).map_err(|_| Error::Malformed)?;
        let (nonce, sealed) = body.split_first_chunk::<NONCE_LENGTH>().ok_or(Error::Malformed)?;
        let payload = Payload {
            msg: sealed,
            aad: place.as_bytes(),
        };
        let opened = key
            .cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| Error::Authentication)?;
        String::from_utf8(opened)
            .map(Secret::new)
            .map_err(|_| Error::Malformed)
    }

    /// Whether a value was made with a replaced key and should be encrypted afresh.
    pub fn is_outdated(&self, value: &str) -> bool {
        !value.starts_with(&format!("{VERSION}.{}.", self.current.id))
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("current", &self.current.id)
            .finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Key {
    id: String,
    fingerprint: String,
    cipher: XChaCha20Poly1305,
}

impl Key {
    fn new(bytes: &[u8; KEY_LENGTH]) -> Self {
        let mut id = digest_bytes(&[b"holdfast key id".as_slice(), bytes].concat());
        id.truncate(8);
        Self {
            id,
            fingerprint: digest_bytes(&[b"holdfast key fingerprint".as_slice(), bytes].concat()),
            cipher: XChaCha20Poly1305::new(bytes.into()),
        }
    }
}

fn read_key(path: &Path) -> Result<Secret<[u8; KEY_LENGTH]>, Error> {
    let file = File::open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "the key file can be read by other users");
        }
    }
    let mut bytes = Vec::with_capacity(KEY_LENGTH + 1);
    file.take(KEY_LENGTH as u64 + 1).read_to_end(&mut bytes)?;
    bytes.try_into().map(Secret::new).map_err(|_| Error::KeyLength)
}

/// Writes a new key beside the path and then links it there, which fails if something is there already.
fn create_key(path: &Path) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(directory)?;
    // A named temporary file is made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&rand::random::<[u8; KEY_LENGTH]>())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}
