//! Errors of secrets.

/// Errors of encryption and hashing. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file cannot be read or created.
    #[error("key file: {0}")]
    Io(#[from] std::io::Error),
    /// A key is not 32 bytes.
    #[error("the encryption key must be 32 bytes")]
    KeyLength,
    /// An encrypted value does not have the format of [`Keyring::encrypt`](super::Keyring::encrypt).
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
