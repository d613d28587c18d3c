//! Entries of directories.

use git::EntryKind;

use contract::{TreeEntry, TreeEntryType};

/// Returns an entry; the mode has six octal digits.
#[must_use]
pub fn entry(entry: git::TreeEntry) -> TreeEntry {
    TreeEntry {
        id: entry.id.to_string(),
        name: entry.name().to_owned(),
        r#type: match entry.kind {
            EntryKind::Tree => TreeEntryType::Tree,
            EntryKind::Blob => TreeEntryType::Blob,
            EntryKind::Commit => TreeEntryType::Commit,
        },
        mode: format!("{:06o}", entry.mode),
        path: entry.path,
    }
}
