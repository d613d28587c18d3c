//! Errors of the start.

use domain::integrations::object_storage;
use domain::operations::instance_identity;
use storage::database;

/// Reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Settings(#[from] crate::config::ConfigError),
    /// The data directory or the network cannot be used.
    #[error("{what}: {cause}")]
    Io {
        /// The failed operation.
        what: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// The socket of the service manager cannot be used.
    #[error(
        "socket activation: {0}, but Holdfast uses one listening TCP socket; configure a single ListenStream=PORT without \
         Accept=yes (docs/RESTARTS.md)"
    )]
    Socket(String),
    /// The database cannot be used.
    #[error("database: {0}")]
    Database(#[from] database::Error),
    /// The `git` program cannot be used.
    #[error(transparent)]
    Git(#[from] git::VersionError),
    /// The repositories cannot be used.
    #[error("repositories: {0}")]
    Repositories(#[from] git::Error),
    /// The object storage cannot be used.
    #[error("object storage: {0}")]
    Objects(#[from] object_storage::Error),
    /// The key file cannot be used.
    #[error("key file: {0}")]
    Keys(#[from] domain::secrets::Error),
    /// The sample data cannot be created.
    #[error("demo: {0}")]
    Demo(String),
    /// The data directory and the database do not belong together.
    #[error(transparent)]
    Instance(#[from] instance_identity::Error),
    /// The first administrator cannot be created, or work of a stopped server cannot be finished.
    #[error("start: {0}")]
    Setup(#[from] domain::kernel::error::Error),
}
