//! Cruft packs, in which Git stores unreachable objects until it deletes them.
//!
//! Git takes the age of such an object from a file with the extension `mtimes`. libgit2 does not know this file, so it
//! cannot prevent the deletion of an object that a new reference will reach.

use std::io::ErrorKind;
use std::path::Path;

use gix::odb::pack::index;

use super::super::{Oid, Result};

/// The open indexes of the cruft packs of a repository.
pub(super) struct CruftPacks {
    indexes: Vec<index::File>,
    /// Whether the objects of a pack are unknown.
    is_incomplete: bool,
}

impl CruftPacks {
    /// Opens the indexes of all cruft packs below the `objects` directory of a repository.
    pub(super) fn open(objects: &Path) -> Result<Self> {
        let mut packs = Self {
            indexes: Vec::new(),
            is_incomplete: false,
        };
        let entries = match std::fs::read_dir(objects.join("pack")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(packs),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "mtimes") {
                continue;
            }
            match index::File::at(path.with_extension("idx"), gix::hash::Kind::Sha1) {
                Ok(index) => packs.indexes.push(index),
                // A concurrent repack is adding or removing it.
                Err(_) => packs.is_incomplete = true,
            }
        }
        Ok(packs)
    }

    /// Returns whether an object may be in a cruft pack. It may be stored elsewhere too.
    pub(super) fn may_contain(&self, id: Oid) -> bool {
        let contains = |id: gix::ObjectId| self.indexes.iter().any(|index| index.lookup(id).is_some());
        self.is_incomplete || gix::ObjectId::try_from(id.as_bytes()).is_ok_and(contains)
    }
}
