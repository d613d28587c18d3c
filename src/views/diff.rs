//! Changes of files.

use crate::api::contract;
use crate::git;

/// The change of one file.
#[must_use]
pub fn diff(entry: git::DiffEntry) -> contract::Diff {
    contract::Diff {
        old_path: entry.old_path,
        new_path: entry.new_path,
        a_mode: Some(entry.a_mode),
        b_mode: entry.b_mode,
        new_file: entry.new_file,
        renamed_file: entry.renamed_file,
        deleted_file: entry.deleted_file,
        diff: entry.diff,
    }
}
