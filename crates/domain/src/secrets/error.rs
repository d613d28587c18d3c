//! Errors of secrets.

/// Errors of encryption and hashing. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file cannot be read or created.
    #[error("key file: {0}")]
    Io(#[from] std::io::Error),
    /// The key file is malformed; contains the cause.
    #[error("the key file is malformed: {0}")]
    KeyFile(String),
    /// The key file does not contain the key that the database names; contains the prefix of its fingerprint.
    #[error(
        "the key file does not contain the current key of the database ({0}); copy the key file of the node on which the \
         key was rotated"
    )]
    MissingKey(String),
    /// The current key cannot be read from the database.
    #[error("database: {0}")]
    Database(#[from] sea_orm::DbErr),
    /// An encrypted value does not have the format of [`Keyring`](super::Keyring).
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
    Password(#[from] cryptography::PasswordError),
}
