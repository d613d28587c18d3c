//! Access to Git repositories. Only this module uses libgit2, gix and the `git` program.
//!
//! [`RepositoryStore`] contains all repositories; [`Repository`] is a cheap handle on one of them. Every public method is
//! asynchronous. Blocking work runs on the blocking pool in a limited number of slots, so slow walks
//! neither block async threads nor pile up. Each client gets only a share of the slots ([`SlotHolder`]).
//!
//! Errors ([`Error`]) describe Git conditions and never HTTP.

mod abandoned_files;
mod archive;
mod blame;
mod blobs;
mod blocking;
mod branches;
mod bzip2_stream;
mod caches;
mod cherry_pick;
mod commit;
mod commit_signature;
mod compare;
mod contributors;
mod diff;
mod error;
mod fair_semaphore;
mod files;
mod fork;
mod history;
mod import;
pub mod launcher;
mod layout;
mod line_reader;
mod lock;
mod maintenance;
mod memory_budget;
mod merge;
pub mod metric_names;
mod new_commits;
mod object_memory;
mod path;
mod process;
mod push_explanation;
mod push_pack;
mod ref_locks;
mod ref_name;
mod refs;
mod repository;
mod result_memory;
mod revision;
mod slots;
mod snapshot;
mod spool;
mod store;
mod stream;
mod tags;
#[cfg(test)]
mod test_repository;
#[cfg(test)]
mod testing;
mod transport;
mod trees;
mod write;
mod write_probe;

pub use archive::{ArchiveFormat, ArchiveRequest};
pub use blame::BlameRange;
pub use blobs::{Blob, BlobStream};
pub use blocking::run_blocking;
pub use branches::{Branch, BranchPage};
pub use caches::DEFAULT_GIT_CACHE_BYTES;
pub use commit::{Commit, Signature};
pub use commit_signature::CommitSignature;
pub use compare::Comparison;
pub use contributors::{Contributor, ContributorOrder};
pub use diff::{ChangedPaths, Diff, DiffEntry, DiffStats, LineSide};
pub(crate) use error::OBJECT_TOO_LARGE;
pub use error::{ActionError, Error, Result, SystemFault};
pub use fair_semaphore::{FairPermit, FairSemaphore, SemaphoreUsage, Shares};
pub use files::{FileVisitor, ObjectFile, RepositoryFiles};
pub use history::{CommitOrder, CommitQuery, CommitSelection, ContainingRefs};
pub use lock::{LockedRepository, WriteGuard};
pub use maintenance::{ImportedReference, RepackExtent, check_import_source, imported_references};
pub use memory_budget::DEFAULT_GIT_MEMORY_BYTES;
pub use merge::{MergeMethod, MergeOptions, PreparedMerge, PreparedMove, SquashCommit, TestMerge};
pub use new_commits::{MAX_NEW_COMMITS, NewCommit, NewCommitList, NewFile, NewObjects};
pub use path::TreePath;
pub use process::{ProcessorBudget, ProgramVersion, VersionError, program_version};
pub use push_pack::PackRequest;
pub use ref_name::{
    check_branch_name, check_custom_reference_name, check_tag_name, is_custom_reference,
    is_reserved_reference,
};
pub use refs::PageWindow;
pub use repository::Repository;
pub use result_memory::ResultMemory;
pub use slots::{SlotHolder, SlotUsage};
pub use store::{DEFAULT_MAX_PUSH_BYTES, RepositoryId, RepositoryStore, StoreLimits};
pub use stream::ByteStream;
pub use tags::{Tag, TagOrder, TagPage, TagQuery};
pub use transport::{
    OpenPush, PushDecider, PushDecision, PushOutcome, PushRules, ReceivePolicy, ReceivedPush, RefCommand,
    TransportService, remove_abandoned_push_directories,
};
pub use trees::{EntryKind, PathEntry, TreeEntry, TreePage};
pub use write::{BranchStart, CommitRequest, CommitResult, FileAction, PreparedCommit};

/// ID of a Git object: 20 bytes, displayed as 40 lowercase hex digits.
pub use git2::Oid;
