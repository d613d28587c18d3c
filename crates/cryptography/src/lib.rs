//! Password hashes, key derivation and authenticated encryption.
//!
//! The libraries are generic, so the compiler creates their code in the package that calls them. This package has no generic
//! functions, and `Cargo.toml` optimizes it in all profiles. Callers decide about formats, keys and random numbers.

mod cipher;
mod password;
mod stream;

pub use cipher::{Cipher, NONCE_LENGTH, TAG_LENGTH};
pub use password::{PasswordError, derive_key, hash_password, password_matches};
pub use stream::{ChunkDecryptor, ChunkEncryptor, STREAM_PREFIX_LENGTH};

/// Length of a key in bytes.
pub const KEY_LENGTH: usize = 32;
