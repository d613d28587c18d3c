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

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use super::error::Error;
use super::secret::Secret;
use super::token::digest_bytes;

/// The length of a key in bytes.
pub const KEY_LENGTH: usize = 32;

/// Format version of encrypted values; a new version is added next to it and never replaces it.
const VERSION: &str = "v1";
const NONCE_LENGTH: usize = 24;
/// The block size of SHA-256 in bytes, which is the length of an HMAC key.
const DIGEST_KEY_LENGTH: usize = 64;

/// The keys for encrypting values (XChaCha20-Poly1305).
///
/// An encrypted value is `v1.<key id>.<base64url of nonce and ciphertext>`. The key ID is part of a hash of
/// the key. It distinguishes a value with another key from a manipulated value, and allows replacing keys:
/// see [`Keyring::with_previous`].
#[derive(Clone)]
pub struct Keyring {
    current: Key,
    previous: Vec<Key>,
}

impl Keyring {
    /// Creates a keyring with a given key.
    pub fn new(key: &Secret<[u8; KEY_LENGTH]>) -> Self {
        Self {
            current: Key::new(key.expose()),
            previous: Vec::new(),
        }
    }

    /// Adds a replaced key, so that values encrypted with it can still be read.
    #[must_use]
    pub fn with_previous(mut self, key: &Secret<[u8; KEY_LENGTH]>) -> Self {
        self.previous.push(Key::new(key.expose()));
        self
    }

    /// Reads the key from a file, or creates the file atomically, readable only by its owner. Several
    /// processes may start at once. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::KeyLength`] if the file does not contain exactly one key.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match read_key(path) {
            Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            found => return Ok(Self::new(&found?)),
        }
        match create_key(path) {
            // Another process created the file first; its key is used.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => file?,
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

    /// Encrypts a value for one location, named by `context` (such as `projects.runners_token:7`). It can be
    /// decrypted only for the same location, so that an attacker with write access to the database cannot
    /// swap rows.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the value exceeds 256 GB.
    pub fn encrypt(&self, value: &str, context: &str) -> Result<String, Error> {
        let nonce: [u8; NONCE_LENGTH] = rand::random();
        let payload = Payload {
            msg: value.as_bytes(),
            aad: context.as_bytes(),
        };
        let sealed = self
            .current
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| Error::Malformed)?;
        let body = URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat());
        Ok(format!("{VERSION}.{}.{body}", self.current.id))
    }

    /// Decrypts a value that was encrypted for `context`.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::UnknownKey`], [`Error::Authentication`].
    pub fn decrypt(&self, value: &str, context: &str) -> Result<Secret<String>, Error> {
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
            aad: context.as_bytes(),
        };
        let opened = key
            .cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| Error::Authentication)?;
        String::from_utf8(opened)
            .map(Secret::new)
            .map_err(|_| Error::Malformed)
    }

    /// Returns the HMAC-SHA-256 of a value in hex, for values that are only compared and could be guessed from
    /// an ordinary digest, such as network addresses. Digests of different contexts differ, and replacing the
    /// key changes all of them.
    #[must_use]
    pub fn keyed_digest(&self, value: &str, context: &str) -> String {
        let mut mac = Hmac::<Sha256>::new(&self.current.digest_key.into());
        mac.update(context.as_bytes());
        // Separates the two; no context contains NUL.
        mac.update(b"\0");
        mac.update(value.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    /// Returns whether a value was encrypted with a replaced key and should be encrypted again.
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
    digest_key: [u8; DIGEST_KEY_LENGTH],
}

impl Key {
    fn new(bytes: &[u8; KEY_LENGTH]) -> Self {
        let mut id = digest_bytes(&[b"holdfast key id".as_slice(), bytes].concat());
        id.truncate(8);
        let derived = Sha256::digest([b"holdfast digest key".as_slice(), bytes].concat());
        let mut digest_key = [0; DIGEST_KEY_LENGTH];
        digest_key[..derived.len()].copy_from_slice(&derived);
        Self {
            id,
            fingerprint: digest_bytes(&[b"holdfast key fingerprint".as_slice(), bytes].concat()),
            cipher: XChaCha20Poly1305::new(bytes.into()),
            digest_key,
        }
    }
}

fn read_key(path: &Path) -> Result<Secret<[u8; KEY_LENGTH]>, Error> {
    let file = File::open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "found a key file that other users can read");
        }
    }
    let mut bytes = Vec::with_capacity(KEY_LENGTH + 1);
    file.take(KEY_LENGTH as u64 + 1).read_to_end(&mut bytes)?;
    bytes.try_into().map(Secret::new).map_err(|_| Error::KeyLength)
}

/// Writes a new key to a temporary file and links it to the path, which fails if the path exists.
fn create_key(path: &Path) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(directory)?;
    // A named temporary file has mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&rand::random::<[u8; KEY_LENGTH]>())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}
