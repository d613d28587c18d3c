//! Errors of repository operations.

use std::io::ErrorKind;
use std::time::Duration;

use parsers::gitmodules::GitmodulesError;

/// Result of a Git operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Text of [`Error::LimitExceeded`] if reading an object takes more memory than a program may use. Clones copy the
/// object as it is stored.
pub(crate) const OBJECT_TOO_LARGE: &str = "an object takes too much memory to read; clone the repository instead, or store large files with Git LFS";

/// Error of a repository operation.
///
/// Services map each variant to a response; this module does not depend on HTTP.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory of the repository does not exist.
    #[error("the repository does not exist")]
    RepositoryMissing,
    /// The repository to create already exists.
    #[error("the repository exists")]
    RepositoryExists,
    /// A revision (branch, tag, ID or expression) resolves to no commit.
    #[error("the revision does not resolve to a commit")]
    RevisionNotFound,
    /// No object, or an object of another type, is at the path or has the ID.
    #[error("no such object")]
    ObjectNotFound,
    /// The branch does not exist.
    #[error("the branch does not exist")]
    BranchNotFound,
    /// The tag does not exist.
    #[error("the tag does not exist")]
    TagNotFound,
    /// A branch or tag with that name already exists.
    #[error("a reference with that name exists")]
    ReferenceExists,
    /// The branch or tag name breaks Git's rules for reference names.
    #[error("the reference name is invalid")]
    InvalidReferenceName,
    /// The reference moved between reading and writing it.
    #[error("the reference was changed concurrently")]
    StaleReference,
    /// An action of a commit cannot be applied.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// A cherry-pick or revert changes nothing.
    #[error("the change is empty")]
    EmptyChange,
    /// A cherry-pick, revert or merge has conflicts.
    #[error("the change conflicts")]
    Conflict,
    /// The histories diverged, so a fast-forward is impossible.
    #[error("the branch cannot be fast-forwarded")]
    Diverged,
    /// A limit on size, count or depth was exceeded; the text names the limit.
    #[error("{0}")]
    LimitExceeded(&'static str),
    /// Too little memory is left for the client.
    #[error("too little memory is left for the result")]
    MemoryExhausted,
    /// The client has used its processor time; contains the time until it can start a program.
    #[error("the client has used its processor time")]
    ProcessorTimeUsed(Duration),
    /// Too many operations are running.
    #[error("{0}")]
    Busy(&'static str),
    /// Another process locked the repository or a reference for longer than the wait limit.
    #[error("the repository is locked")]
    Locked,
    /// The operation exceeded its time limit.
    #[error("the operation took too long")]
    Timeout,
    /// The client violated the Git protocol; the text describes how.
    #[error("{0}")]
    Protocol(&'static str),
    /// libgit2 failed for a reason that callers cannot fix.
    #[error("libgit2: {0}")]
    Git2(#[from] git2::Error),
    /// gix failed for a reason that callers cannot fix.
    #[error("gix: {0}")]
    Gix(String),
    /// The `git` program failed for a reason that callers cannot fix; the text is its standard error, for the
    /// log.
    #[error("git {command} failed: {stderr}")]
    Program {
        /// The subcommand.
        command: &'static str,
        /// Standard error, truncated to a few kilobytes.
        stderr: String,
    },
    /// The file system failed.
    #[error("file system: {0}")]
    Io(#[from] std::io::Error),
    /// A background thread panicked.
    #[error("a worker thread failed")]
    Worker,
}

/// Fault of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemFault {
    /// A disk has no space, or a quota is exceeded.
    DiskFull,
    /// A file system is mounted read-only.
    ReadOnlyDisk,
    /// A disk or its file system has an error.
    FailedDisk,
    /// The process or the machine has too many open files.
    TooManyFiles,
}

/// Texts of the system for each fault, in the C locale.
const FAULT_TEXTS: [(&str, SystemFault); 7] = [
    ("No space left on device", SystemFault::DiskFull),
    ("Disk quota exceeded", SystemFault::DiskFull),
    ("Read-only file system", SystemFault::ReadOnlyDisk),
    ("Input/output error", SystemFault::FailedDisk),
    ("Structure needs cleaning", SystemFault::FailedDisk),
    ("Too many open files in system", SystemFault::TooManyFiles),
    ("Too many open files", SystemFault::TooManyFiles),
];

impl Error {
    /// Returns the fault of the machine that caused the error, if any.
    #[must_use]
    pub fn system_fault(&self) -> Option<SystemFault> {
        let of_text = |text: String| {
            let known = FAULT_TEXTS.into_iter().find(|(part, _)| text.contains(part));
            known.map(|(_, fault)| fault)
        };
        match self {
            Self::Io(error) => match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(SystemFault::DiskFull),
                ErrorKind::ReadOnlyFilesystem => Some(SystemFault::ReadOnlyDisk),
                // These errors have no kind of their own.
                _ => of_text(error.to_string())
                    .filter(|fault| matches!(fault, SystemFault::TooManyFiles | SystemFault::FailedDisk)),
            },
            // Libraries and programs return only the text of the system.
            Self::Git2(_) | Self::Gix(_) | Self::Program { .. } => of_text(self.to_string()),
            _ => None,
        }
    }
}

/// Reason why an action of a commit cannot be applied; clients see the texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// The path of `create`, or the target of `move`, already exists.
    #[error("A file with this name already exists")]
    FileExists,
    /// The path of `update`, `delete` or `chmod`, or the source of `move`, is not a file.
    #[error("A file with this name doesn't exist")]
    FileMissing,
    /// The path has a `..` component.
    #[error("Path cannot include directory traversal")]
    DirectoryTraversal,
    /// The path is empty.
    #[error("You must provide a file path")]
    PathEmpty,
    /// Git rejects the path: any form of `.git`, NUL, control characters, or too long.
    #[error("invalid path: '{0}'")]
    PathInvalid(String),
    /// Git refuses the content of the file with submodules at the path.
    #[error("invalid file '{0}': {1}")]
    SubmodulesInvalid(String, GitmodulesError),
    /// A parent component of the path is a file, or the path itself is a directory.
    #[error("The path '{0}' is in the way of a file or directory of the same name")]
    PathOccupied(String),
    /// The file changed since the `last_commit_id` of the caller.
    #[error("The file has changed since you started editing it: {0}")]
    FileChanged(String),
}

/// Converts the "not found" error of libgit2.
pub(super) fn absent(error: git2::Error) -> Error {
    match error.code() {
        git2::ErrorCode::NotFound => Error::ObjectNotFound,
        _ => Error::Git2(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_recognized_in_codes_and_texts() {
        let of_code = |code| Error::Io(std::io::Error::from_raw_os_error(code)).system_fault();
        assert_eq!(of_code(28), Some(SystemFault::DiskFull));
        assert_eq!(of_code(122), Some(SystemFault::DiskFull));
        assert_eq!(of_code(30), Some(SystemFault::ReadOnlyDisk));
        assert_eq!(of_code(5), Some(SystemFault::FailedDisk));
        assert_eq!(of_code(117), Some(SystemFault::FailedDisk));
        assert_eq!(of_code(24), Some(SystemFault::TooManyFiles));
        assert_eq!(of_code(23), Some(SystemFault::TooManyFiles));
        assert_eq!(of_code(13), None);
        let program = |stderr: &str| Error::Program {
            command: "merge-tree",
            stderr: stderr.to_owned(),
        };
        for (text, expected) in [
            (
                "error: unable to write loose object file: No space left on device",
                Some(SystemFault::DiskFull),
            ),
            (
                "error: unable to create temporary file: Read-only file system",
                Some(SystemFault::ReadOnlyDisk),
            ),
            (
                "fatal: cannot create pipe: Too many open files",
                Some(SystemFault::TooManyFiles),
            ),
            ("fatal: not a tree object", None),
        ] {
            assert_eq!(program(text).system_fault(), expected, "{text}");
        }
        assert_eq!(Error::Locked.system_fault(), None);
    }
}
