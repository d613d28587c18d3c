//! Packages of projects: generic files, npm, PyPI, Cargo and Maven
//! (`docs/adr/0064-store-each-package-file-as-an-object-of-its-own.md`).
//!
//! A package is one version. The content of each file is one object in the object storage. The row of an object is
//! written before the object, and the transaction that adds the file attaches the object to the file. So a killed
//! server leaves nothing visible, and the storage contains no unknown objects.

pub mod access;
pub mod cargo;
pub mod cleanup;
pub mod client_lists;
pub mod content;
pub mod creation;
pub mod deletion;
pub mod downloads;
pub mod garbage_collection;
pub mod generic;
pub mod integrity;
pub mod jobs;
pub mod listing;
pub mod maven;
pub mod metric_names;
pub mod npm;
pub mod protection;
pub mod pypi;
pub mod reauthorization;
pub mod usage;

pub use storage::entities::packages::{PackageStatus, PackageType};

/// Returns whether the object storage has the content of a package file under a key.
pub(crate) fn is_object_key(key: &str) -> bool {
    key.strip_prefix(content::FOLDER)
        .is_some_and(|rest| rest.starts_with('/'))
}
