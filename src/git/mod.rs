//! Everything that touches Git repositories, and the only place that names libgit2, gix or the `git` program.
//!
//! [`Store`] knows where repositories live; [`Repository`] is a cheap handle on one of them. Every public
//! method is asynchronous: blocking work runs on the blocking pool under a bounded number of permits, so a
//! slow walk can neither stall the async threads nor start without limit.
//!
//! Errors are facts about Git ([`Error`]), never HTTP.

mod archive;
mod blame;
mod compare;
mod contributors;
mod diff;
mod error;
mod history;
mod lines;
mod maintenance;
mod process;
mod repository;
#[cfg(test)]
mod sample;
mod store;
mod stream;
mod transport;

pub use archive::{Archive, ArchiveFormat};
pub use blame::BlameRange;
pub use compare::Comparison;
pub use contributors::{Contributor, ContributorOrder};
pub use diff::{Diff, DiffEntry, LineSide, Stats};
pub use error::{Error, Result};
pub use history::{Containing, ListCommits, Order, Selection};
pub use maintenance::Repack;
pub use repository::Repository;
pub use store::{RepositoryId, Store};
pub use stream::ByteStream;
pub use transport::{Outcome, Push, ReceivePolicy, Received, RefCommand, Service};

/// The id of a Git object: 20 bytes, shown as 40 lower-case hex digits.
pub use git2::Oid;
