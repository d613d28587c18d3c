//! Secrets: encryption, hashing, and types that never reach a log.
//!
//! Values that must be readable (webhook tokens, CI variables, runner tokens) are encrypted with a [`Keyring`], for
//! one of the columns of [`EncryptedColumn`] and within the transaction that stores them ([`Encryptor`]).
//! Tokens and session cookies are looked up by their SHA-256 ([`digest`]): they are long and random, so a slow
//! hash is unnecessary. Passwords are hashed with argon2id ([`hash_password`]).

mod columns;
mod error;
mod key;
mod key_file;
mod keyring;
mod password;
mod secret;
#[cfg(test)]
mod tests;
mod token;

pub use columns::{EncryptedColumn, EncryptionContext};
pub use error::Error;
pub use key::{KEY_LENGTH, KEY_PREFIX_LENGTH};
pub use key_file::{KeyFile, MAX_KEYS, MergedKeys};
pub(crate) use keyring::shortened;
pub use keyring::{CurrentKey, Encryptor, Keyring};
pub use password::{hash_password, verify_password};
pub use secret::{Secret, constant_time_eq};
pub use token::{Token, digest};
