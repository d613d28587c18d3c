//! Secrets: encryption, hashing, and types that never reach a log.
//!
//! Values that must be readable (webhook tokens, CI variables, runner tokens) are encrypted with a [`Keyring`].
//! Tokens and session cookies are looked up by their SHA-256 ([`digest`]): they are long and random, so a slow
//! hash is unnecessary. Passwords are hashed with argon2id ([`hash_password`]).

mod error;
mod keyring;
mod password;
mod secret;
#[cfg(test)]
mod tests;
mod token;

pub use error::Error;
pub use keyring::{KEY_LENGTH, Keyring};
pub use password::{hash_password, verify_password};
pub use secret::{Secret, constant_time_eq};
pub use token::{Token, digest};
