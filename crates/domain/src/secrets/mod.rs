//! Secrets: encryption, hashing, and types that never reach a log.
//!
//! Values that must be readable (webhook tokens, CI variables, runner tokens) are encrypted with a [`Keyring`].
//! Tokens and session cookies are looked up by their SHA-256 ([`digest`]): they are long and random, so a slow
//! hash is unnecessary. Passwords are hashed with argon2id ([`hash_password`]).

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

/// A value that must not be printed: its `Debug` hides the content, and it has no `Display`.
#[derive(Clone, Default)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// Returns the value and drops the wrapper.
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

/// Compares two secrets in a time that depends only on their lengths.
pub fn constant_time_eq(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

/// Errors of this module. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file cannot be read or created.
    #[error("key file: {0}")]
    Io(#[from] std::io::Error),
    /// A key is not 32 bytes.
    #[error("the encryption key must be {KEY_LENGTH} bytes")]
    KeyLength,
    /// An encrypted value does not have the format of [`Keyring::encrypt`].
    #[error("the encrypted value is malformed")]
    Malformed,
    /// An encrypted value uses an unknown key; contains the ID of the key.
    #[error("the value was encrypted with another key ({0})")]
    UnknownKey(String),
    /// An encrypted value was manipulated, or belongs to another location.
    #[error("the encrypted value cannot be authenticated")]
    Authentication,
    /// A password hash in the database is malformed, or hashing failed.
    #[error("password hash: {0}")]
    Password(argon2::password_hash::Error),
}
