//! Secrets: what is encrypted at rest, what is only hashed, and how none of it reaches a log.
//!
//! What must be read back (hook tokens, CI variables, runner tokens) goes through a [`Keyring`]. Tokens and
//! session cookies are looked up by their SHA-256 ([`digest`]): they are long and random, so a slow hash would
//! add nothing. Passwords are hashed with argon2id ([`hash_password`]).

use std::fmt;

use subtle::ConstantTimeEq;

mod keyring;
mod password;
#[cfg(test)]
mod tests;
mod token;

pub use keyring::{KEY_LENGTH, Keyring};
pub use password::{hash_password, verify_password};
pub use token::{Token, digest};

/// A value that must not be shown: its `Debug` says only that it is there, and it has no `Display`.
#[derive(Clone, Default)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, at the one place that needs it.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// The value, taken out of its wrapping.
    pub fn into_exposed(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

/// Whether two secrets are the same, in a time that depends on their lengths only.
pub fn constant_time_eq(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

/// What can go wrong with secrets. No message repeats any of them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file cannot be read or made.
    #[error("key file: {0}")]
    Io(#[from] std::io::Error),
    /// A key is not 32 bytes.
    #[error("the encryption key must be {KEY_LENGTH} bytes")]
    KeyLength,
    /// An encrypted value is not in the form that [`Keyring::encrypt`] gives.
    #[error("the encrypted value is malformed")]
    Malformed,
    /// An encrypted value was made with a key that is not at hand; the id of the key.
    #[error("the value was encrypted with another key ({0})")]
    UnknownKey(String),
    /// An encrypted value was changed, or belongs to another place.
    #[error("the encrypted value cannot be authenticated")]
    Authentication,
    /// A password hash in the database is malformed, or hashing failed.
    #[error("password hash: {0}")]
    Password(argon2::password_hash::Error),
}
