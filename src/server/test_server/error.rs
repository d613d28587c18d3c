//! Errors of a test server.

use std::path::PathBuf;

/// Reason why a test server cannot start, or cannot change its state.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The instance cannot be opened.
    #[error(transparent)]
    Server(#[from] super::super::Error),
    /// A file of the temporary directory or of a snapshot cannot be read or written.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// A directory is not a snapshot.
    #[error("{} is not a snapshot of a test server: {cause}; name a directory that a test server has saved", .path.display())]
    NoSnapshot {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The directory for a snapshot is in use.
    #[error("{} exists; name a directory that does not exist", .0.display())]
    Exists(PathBuf),
    /// Requests are not finished.
    #[error("requests are still in progress; wait for their responses, and then save the snapshot")]
    RequestsInProgress,
    /// The state that was saved cannot be opened again.
    #[error("the state cannot be opened again, and was reset: {0}")]
    StateLost(Box<Error>),
    /// The change was aborted by a panic.
    #[error("an internal task failed: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// The clock runs.
    #[error("the clock is not frozen; set its time before you advance it")]
    ClockRuns,
    /// A time is out of range.
    #[error("the time is out of range (the years 1970 to 9999)")]
    TimeOutOfRange,
    /// The server has stopped.
    #[error("the test server stops")]
    Stopping,
}

impl Error {
    /// Returns a function that adds the path to an error of the system.
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Io { path, cause }
    }
}

impl From<domain::kernel::error::Error> for Error {
    fn from(error: domain::kernel::error::Error) -> Self {
        Self::Server(error.into())
    }
}
