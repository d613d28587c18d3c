//! Removal of old backups and of files that no backup refers to.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use super::cause;
use super::file_store::FileStore;
use super::identifier::BackupId;
use super::manifest::BackupManifest;

/// Result of a removal.
#[derive(Debug, Default)]
pub(super) struct Removal {
    pub(super) removed: Vec<BackupId>,
    /// Why nothing, or not everything, was removed.
    pub(super) failure: Option<String>,
}

/// Removes all backups except for the newest `keep`, and all files that no remaining backup refers to. If a remaining
/// backup cannot be read, nothing is removed, because its files are not known. Blocks.
pub(super) fn remove(store: &FileStore, keep: Option<NonZeroUsize>) -> Removal {
    let mut removed = Vec::new();
    let failure = remove_from(store, keep, &mut removed).err();
    Removal { removed, failure }
}

fn remove_from(
    store: &FileStore,
    keep: Option<NonZeroUsize>,
    removed: &mut Vec<BackupId>,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", store.directory().display());
    let mut old = store.backups().map_err(failed)?;
    let first = keep.map_or(0, |keep| old.len().saturating_sub(keep.get()));
    let remaining = old.split_off(first);
    let needed = needed_files(store, &remaining)?;
    // A backup is removed before its files, so that it is never listed without them.
    for id in old {
        store.remove(&id).map_err(failed)?;
        removed.push(id);
    }
    let unneeded = store.names(|name| !needed.contains(name)).map_err(failed)?;
    for name in unneeded
        .iter()
        .filter(|name| super::file_store::is_file_name(name))
    {
        store.delete(name).map_err(failed)?;
    }
    Ok(())
}

/// Returns the names of all files of backups.
pub(super) fn needed_files(store: &FileStore, ids: &[BackupId]) -> Result<HashSet<String>, String> {
    let mut needed = HashSet::new();
    for id in ids {
        let unreadable = |error| format!("the backup {id} is damaged: {}", cause(&error));
        let manifest = BackupManifest::read(store, id).map_err(unreadable)?;
        for file in manifest.files(store).map_err(unreadable)? {
            needed.insert(store.name(file.digest).map_err(|error| error.to_string())?);
        }
    }
    Ok(needed)
}
