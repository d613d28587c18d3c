//! An encryption key.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use cryptography::{Cipher, NONCE_LENGTH};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::error::Error;
use super::secret::Secret;
use super::token::digest_bytes;

pub use cryptography::KEY_LENGTH;

/// Format version of encrypted values; a new version is added next to it and never replaces it.
const VERSION: &str = "v1";
/// Length of the ID of a key in hex digits.
const ID_LENGTH: usize = 8;
/// Length of the prefix of an encrypted value that contains the ID of its key, in characters.
pub const KEY_PREFIX_LENGTH: usize = VERSION.len() + 1 + ID_LENGTH + 1;
/// The block size of SHA-256 in bytes, which is the length of an HMAC key.
const DIGEST_KEY_LENGTH: usize = 64;

/// One key of a keyring.
pub(super) struct Key {
    /// The prefix of a hash of the key, which encrypted values contain.
    pub(super) id: String,
    /// A digest of the key in hex, which reveals nothing of it: a key is 32 random bytes.
    pub(super) fingerprint: String,
    cipher: Cipher,
    digest_key: [u8; DIGEST_KEY_LENGTH],
}

/// An encrypted value, divided into its parts.
pub(super) struct EncryptedValue<'a> {
    /// The ID of its key.
    pub(super) key_id: &'a str,
    body: &'a str,
}

impl<'a> EncryptedValue<'a> {
    /// Parses `v1.<key ID>.<base64url of nonce and ciphertext>`.
    pub(super) fn parse(value: &'a str) -> Result<Self, Error> {
        let mut parts = value.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(VERSION), Some(key_id), Some(body)) => Ok(Self { key_id, body }),
            _ => Err(Error::Malformed),
        }
    }
}

impl Key {
    pub(super) fn new(bytes: &[u8; KEY_LENGTH]) -> Self {
        let mut id = digest_bytes(&[b"holdfast key id".as_slice(), bytes].concat());
        id.truncate(ID_LENGTH);
        let derived = Sha256::digest([b"holdfast digest key".as_slice(), bytes].concat());
        let mut digest_key = [0; DIGEST_KEY_LENGTH];
        digest_key[..derived.len()].copy_from_slice(&derived);
        Self {
            id,
            fingerprint: digest_bytes(&[b"holdfast key fingerprint".as_slice(), bytes].concat()),
            cipher: Cipher::new(bytes),
            digest_key,
        }
    }

    /// Returns the prefix of all values that are encrypted with this key.
    pub(super) fn prefix(&self) -> String {
        format!("{VERSION}.{}.", self.id)
    }

    pub(super) fn encrypt(&self, value: &str, context: &str) -> Result<String, Error> {
        let nonce: [u8; NONCE_LENGTH] = rand::random();
        let sealed = self
            .cipher
            .encrypt(&nonce, value.as_bytes(), context.as_bytes())
            .ok_or(Error::Malformed)?;
        let body = URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat());
        Ok(format!("{}{body}", self.prefix()))
    }

    /// Decrypts a value that contains the ID of this key.
    pub(super) fn decrypt(&self, value: &EncryptedValue<'_>, context: &str) -> Result<Secret<String>, Error> {
        let body = URL_SAFE_NO_PAD.decode(value.body).map_err(|_| Error::Malformed)?;
        let (nonce, sealed) = body.split_first_chunk::<NONCE_LENGTH>().ok_or(Error::Malformed)?;
        let opened = self
            .cipher
            .decrypt(nonce, sealed, context.as_bytes())
            .ok_or(Error::Authentication)?;
        String::from_utf8(opened)
            .map(Secret::new)
            .map_err(|_| Error::Malformed)
    }

    /// Returns the HMAC-SHA-256 of a value in hex.
    pub(super) fn digest(&self, value: &str, context: &str) -> String {
        let mut mac = Hmac::<Sha256>::new(&self.digest_key.into());
        mac.update(context.as_bytes());
        // Separates the context from the value: no context contains NUL.
        mac.update(b"\0");
        mac.update(value.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }
}
