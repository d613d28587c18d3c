//! File names in archives. Names outside of the layout are rejected.

use super::error::ArchiveError;
use super::layout::{ALL_FILE, GROUPS, Relation, VERSION_FILE};

/// Maximum length of an ignored file's name, in bytes.
const MAX_IGNORED_NAME_BYTES: usize = 64;

/// Kind of a file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub enum ArchiveEntry {
    /// Version of the layout.
    Version,
    /// File next to the version that describes the source server. Ignored.
    Ignored,
    /// List of the groups.
    All,
    /// Attributes of a group.
    Group(i64),
    /// Records of a group.
    Relation(i64, Relation),
    /// Records of a relation that this server does not support.
    Unknown(i64, String),
}

/// Returns a name without the optional prefix `./`.
pub fn without_dot_prefix(name: &str) -> &str {
    name.strip_prefix("./").unwrap_or(name)
}

impl ArchiveEntry {
    /// Parses the name of a file.
    ///
    /// # Errors
    /// Returns [`ArchiveError::Invalid`] if the name is not part of the layout.
    pub fn of_file(name: &str) -> Result<Self, ArchiveError> {
        let plain = without_dot_prefix(name);
        match plain {
            VERSION_FILE => return Ok(Self::Version),
            ALL_FILE => return Ok(Self::All),
            _ => {}
        }
        let capital = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
        if !plain.is_empty() && plain.len() <= MAX_IGNORED_NAME_BYTES && plain.bytes().all(capital) {
            return Ok(Self::Ignored);
        }
        below_groups(plain).ok_or_else(|| unknown_name(name))
    }

    /// Checks the name of a directory.
    ///
    /// # Errors
    /// Returns [`ArchiveError::Invalid`] if the name is not part of the layout.
    pub fn of_directory(name: &str) -> Result<(), ArchiveError> {
        let plain = without_dot_prefix(name);
        let plain = plain.strip_suffix('/').unwrap_or(plain);
        let of_group = || plain.strip_prefix(GROUPS)?.strip_prefix('/').and_then(number);
        let root = matches!(name, "." | "./");
        let known = root || plain == "tree" || plain == GROUPS || of_group().is_some();
        if known { Ok(()) } else { Err(unknown_name(name)) }
    }
}

fn below_groups(plain: &str) -> Option<ArchiveEntry> {
    let rest = plain.strip_prefix(GROUPS)?.strip_prefix('/')?;
    let Some((group, file)) = rest.split_once('/') else {
        return number(rest.strip_suffix(".json")?).map(ArchiveEntry::Group);
    };
    let (id, word) = (number(group)?, file.strip_suffix(".ndjson")?);
    if let Some(relation) = Relation::from_name(word) {
        return Some(ArchiveEntry::Relation(id, relation));
    }
    let small = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let word_like = !word.is_empty() && word.len() <= MAX_IGNORED_NAME_BYTES && word.bytes().all(small);
    word_like.then(|| ArchiveEntry::Unknown(id, word.to_owned()))
}

/// Parses an ID: digits without leading zeros.
fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| digits)
}

fn unknown_name(name: &str) -> ArchiveError {
    ArchiveError::Invalid(format!(
        "The archive contains an unexpected file or directory: {name:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_layout_names_are_accepted() {
        for (name, known) in [
            ("VERSION", ArchiveEntry::Version),
            ("./VERSION", ArchiveEntry::Version),
            ("SOME_REVISION", ArchiveEntry::Ignored),
            ("tree/groups/_all.ndjson", ArchiveEntry::All),
            ("./tree/groups/17.json", ArchiveEntry::Group(17)),
            (
                "tree/groups/17/epics.ndjson",
                ArchiveEntry::Relation(17, Relation::Epics),
            ),
            (
                "tree/groups/17/wikis.ndjson",
                ArchiveEntry::Unknown(17, "wikis".to_owned()),
            ),
        ] {
            assert_eq!(ArchiveEntry::of_file(name).expect(name), known);
        }
        for name in ["./", "tree", "./tree/groups/", "tree/groups/17/"] {
            assert!(ArchiveEntry::of_directory(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn other_archive_names_are_rejected() {
        for name in [
            "",
            "/VERSION",
            "../VERSION",
            "././VERSION",
            "group.json",
            "tree/groups/../../VERSION",
            "tree/groups/x.json",
            "tree/groups/-1.json",
            "tree/groups/017.json",
            "tree/groups/99999999999999999999.json",
            "tree/groups/17/../18.json",
            "tree/groups/17/labels.ndjson/x",
            "tree/groups/17/labels.json",
            "tree/groups/17/LABELS.ndjson",
            "tree/groups//17.json",
            "tree/projects/17.json",
        ] {
            assert!(ArchiveEntry::of_file(name).is_err(), "{name:?}");
        }
        for name in [
            "/",
            "..",
            "tree/..",
            "tree/groups/x/",
            "uploads/",
            "tree/groups/17/18/",
        ] {
            assert!(ArchiveEntry::of_directory(name).is_err(), "{name:?}");
        }
    }
}
