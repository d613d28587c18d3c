//! Crates of Cargo: names, versions, the body that `cargo publish` sends, and the archive in it.

mod archive;
mod index;
mod name;
mod publication;
mod version;

pub use archive::{CrateArchiveError, MAX_EXPANDED_BYTES, check_archive};
pub use index::{Dependency, DependencyKind, IndexEntry};
pub use name::{CrateName, InvalidCrateName};
pub use publication::{MAX_ENTRY_BYTES, MAX_METADATA_BYTES, Publication, PublicationError, read_publication};
pub use version::{CrateVersion, InvalidCrateVersion};
