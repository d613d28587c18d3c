//! Errors of settings.

use std::path::PathBuf;

/// Reason why settings are rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read or parsed.
    #[error("settings file {path}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// The value of a setting is invalid.
    #[error("{name}: {cause}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The cause.
        cause: String,
    },
}
