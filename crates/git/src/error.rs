//! What can go wrong with a repository, in Git's own terms.

/// The result of a Git operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A fact about a repository that kept an operation from succeeding.
///
/// Services decide what each means to a caller; nothing here knows of HTTP.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The repository's directory is not there.
    #[error("the repository does not exist")]
    RepositoryMissing,
    /// A repository that was to be created is there already.
    #[error("the repository exists")]
    RepositoryExists,
    /// A revision (branch, tag, id, expression) names no commit.
    #[error("the revision names no commit")]
    RevisionNotFound,
    /// Nothing, or not the wanted kind of object, stands at a path or behind an id.
    #[error("no such object")]
    ObjectNotFound,
    /// A branch that was asked for does not exist.
    #[error("the branch does not exist")]
    BranchNotFound,
    /// A tag that was asked for does not exist.
    #[error("the tag does not exist")]
    TagNotFound,
    /// A branch or tag of that name exists already.
    #[error("a reference of that name exists")]
    ReferenceExists,
    /// A branch or tag name breaks Git's rules for reference names.
    #[error("the reference name is invalid")]
    InvalidReferenceName,
    /// A reference moved between reading and writing it: somebody else won.
    #[error("the reference was changed concurrently")]
    StaleReference,
    /// A commit could not be built from its actions.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// A cherry-pick or revert leads to no change.
    #[error("the change is empty")]
    EmptyChange,
    /// A cherry-pick, revert or merge meets conflicting changes.
    #[error("the change conflicts")]
    Conflict,
    /// Histories have parted, so that one cannot be fast-forwarded to the other.
    #[error("the branch cannot be fast-forwarded")]
    Diverged,
    /// A limit on size, count or depth was exceeded; the text names it.
    #[error("{0}")]
    LimitExceeded(&'static str),
    /// So much is under way that there is no room now.
    #[error("{0}")]
    Busy(&'static str),
    /// Somebody else keeps the repository or a reference locked, and went on doing so for as long as we wait.
    #[error("the repository is locked")]
    Locked,
    /// The operation took longer than it may.
    #[error("the operation took too long")]
    Timeout,
    /// A client breaks the rules of Git's protocol; the text says how.
    #[error("{0}")]
    Protocol(&'static str),
    /// libgit2 failed in a way no caller can mend.
    #[error("libgit2: {0}")]
    Git2(#[from] git2::Error),
    /// gix failed in a way no caller can mend.
    #[error("gix: {0}")]
    Gix(String),
    /// The `git` program failed in a way no caller can mend; the text is its standard error, for the log.
    #[error("git {command} failed: {stderr}")]
    Program {
        /// The sub-command that ran.
        command: &'static str,
        /// What it said, cut to a few kilobytes.
        stderr: String,
    },
    /// The file system failed.
    #[error("file system: {0}")]
    Io(#[from] std::io::Error),
    /// A background thread of ours panicked.
    #[error("a worker thread failed")]
    Worker,
}

/// Why one action of a commit cannot be applied (specification 4.1 and 4.2); the texts are for callers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// `create`, or the target of `move`, stands on an existing path.
    #[error("A file with this name already exists")]
    FileExists,
    /// `update`, `delete`, `chmod`, or the source of `move`, names a path that holds no file.
    #[error("A file with this name doesn't exist")]
    FileMissing,
    /// The path has a `..` component.
    #[error("Path cannot include directory traversal")]
    DirectoryTraversal,
    /// The path is empty.
    #[error("You must provide a file path")]
    PathEmpty,
    /// Git refuses the path (`.git` in any disguise, NUL, control characters, too long).
    #[error("invalid path: '{0}'")]
    PathInvalid(String),
    /// A parent component of the path is a file, or the path itself is a directory.
    #[error("The path '{0}' is in the way of a file or directory of the same name")]
    PathOccupied(String),
    /// The file was changed since the `last_commit_id` the caller gave.
    #[error("The file has changed since you started editing it: {0}")]
    FileChanged(String),
}

/// Turns libgit2's "not found" into ours.
pub(super) fn absent(error: git2::Error) -> Error {
    match error.code() {
        git2::ErrorCode::NotFound => Error::ObjectNotFound,
        _ => Error::Git2(error),
    }
}
