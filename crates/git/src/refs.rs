//! Operations on branches and tags: search, pages, and compare-and-swap updates.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::layout::sync_directory;
use super::ref_locks::retry_while_locked;
use super::ref_name::{MAX_FULL_NAME_BYTES, is_custom_reference};
use super::{Error, LockedRepository, Oid, Repository, Result};

/// Maximum length of a file name in bytes on all supported file systems.
const MAX_FILE_NAME_BYTES: usize = 255;

/// A section of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageWindow {
    /// Number of items to skip.
    pub offset: usize,
    /// Maximum number of items to return.
    pub limit: usize,
}

impl PageWindow {
    /// Returns the items of the window; none past the end.
    pub(super) fn of<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        let start = self.offset.min(items.len());
        let end = start.saturating_add(self.limit).min(items.len());
        items.get(start..end).unwrap_or_default()
    }
}

/// Case-insensitive filter on names: `^x` matches a prefix, `x$` a suffix, `^x$` the whole name; other text
/// matches anywhere.
pub(super) struct NameFilter {
    text: String,
    at_start: bool,
    at_end: bool,
}

impl NameFilter {
    pub(super) fn new(search: Option<&str>) -> Self {
        let search = search.unwrap_or_default();
        let (search, at_start) = search
            .strip_prefix('^')
            .map_or((search, false), |rest| (rest, true));
        let (search, at_end) = search
            .strip_suffix('$')
            .map_or((search, false), |rest| (rest, true));
        Self {
            text: search.to_lowercase(),
            at_start,
            at_end,
        }
    }

    pub(super) fn accepts(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        match (self.at_start, self.at_end) {
            (true, true) => name == self.text,
            (true, false) => name.starts_with(&self.text),
            (false, true) => name.ends_with(&self.text),
            (false, false) => name.contains(&self.text),
        }
    }
}

impl Repository {
    /// Returns the targets of references by full name, in the given order.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn targets(&self, names: Vec<String>) -> Result<Vec<Option<Oid>>> {
        self.git2(move |repository| names.iter().map(|name| target(repository, name)).collect())
            .await
    }

    /// Makes updates of these references by `git` durable.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], and [`Error::Io`] if the disk failed: a power failure can undo the updates then.
    pub async fn sync_references(&self, names: Vec<String>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let sync = move |repository: &git2::Repository| {
            sync_directories(repository.path(), names.iter().map(String::as_str))
        };
        self.git2(sync).await
    }

    /// Makes packs that `git` wrote durable, without a reference.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], and [`Error::Io`] if the disk failed.
    pub(crate) async fn sync_packs(&self) -> Result<()> {
        self.git2(|repository| sync_directories(repository.path(), []))
            .await
    }

    /// Returns the number of references that are neither branches nor tags nor reserved, but at most `limit`.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn count_custom_references(&self, limit: usize) -> Result<usize> {
        self.git2(move |repository| {
            let mut count = 0;
            for reference in repository.references()? {
                count += usize::from(reference?.name().is_ok_and(is_custom_reference));
                if count == limit {
                    break;
                }
            }
            Ok(count)
        })
        .await
    }
}

impl LockedRepository {
    /// Deletes a reference by its full name, and returns its target. If `expected` is given, the reference must point to
    /// it. `missing` is the error if the reference does not exist.
    ///
    /// # Errors
    /// `missing`, [`Error::StaleReference`].
    pub(super) async fn delete_ref(self, name: String, expected: Option<Oid>, missing: Error) -> Result<Oid> {
        self.publish(move |repository| {
            let found = target(repository, &name)?.ok_or(missing)?;
            let from = expected.unwrap_or(found);
            delete(repository, &name, from)?;
            Ok(from)
        })
        .await
    }
}

/// Returns the target of a full reference name; follows symbolic references.
pub(super) fn target(repository: &git2::Repository, name: &str) -> Result<Option<Oid>> {
    // libgit2 fails for invalid names and for names that no file can have; here such references do not exist.
    let too_long = name.len() > MAX_FULL_NAME_BYTES
        || name
            .split('/')
            .any(|component| component.len() > MAX_FILE_NAME_BYTES);
    if too_long || !git2::Reference::is_valid_name(name) {
        return Ok(None);
    }
    match repository
        .find_reference(name)
        .and_then(|reference| reference.resolve())
    {
        Ok(reference) => Ok(reference.target()),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the references below a prefix such as `refs/heads/` as short name and target, ordered by name.
/// Names that are not UTF-8, and dangling references, are omitted.
pub(super) fn with_prefix(
    repository: &git2::Repository,
    prefix: &str,
    filter: &NameFilter,
) -> Result<Vec<(String, Oid)>> {
    let mut found = Vec::new();
    for reference in repository.references_glob(&format!("{prefix}*"))? {
        let reference = reference?;
        let Some(name) = reference.name().ok().and_then(|name| name.strip_prefix(prefix)) else {
            continue;
        };
        if !filter.accepts(name) {
            continue;
        }
        if let Some(target) = reference.resolve().ok().and_then(|reference| reference.target()) {
            found.push((name.to_owned(), target));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Creates a reference that must not exist.
///
/// # Errors
/// [`Error::ReferenceExists`], also if the name is a directory of an existing reference or the reverse.
pub(super) fn create(repository: &git2::Repository, name: &str, to: Oid) -> Result<()> {
    if collides(repository, name)? {
        return Err(Error::ReferenceExists);
    }
    match retry_while_locked(repository, name, || {
        repository.reference(name, to, false, "").map(drop)
    }) {
        Err(Error::Git2(error)) if error.code() == git2::ErrorCode::Exists => Err(Error::ReferenceExists),
        result => result,
    }
}

/// Moves a reference that must still point to `from`.
///
/// # Errors
/// [`Error::StaleReference`] if it does not.
pub(super) fn advance(repository: &git2::Repository, name: &str, from: Oid, to: Oid) -> Result<()> {
    let result = retry_while_locked(repository, name, || {
        match repository.reference_matching(name, to, true, from, "") {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    });
    map_stale(result)
}

/// Deletes a reference that must still point to `from`.
///
/// # Errors
/// [`Error::StaleReference`] if it does not.
pub(super) fn delete(repository: &git2::Repository, name: &str, from: Oid) -> Result<()> {
    let result = retry_while_locked(repository, name, || {
        let mut reference = repository.find_reference(name)?;
        if reference.target() != Some(from) {
            return Err(git2::Error::new(
                git2::ErrorCode::Modified,
                git2::ErrorClass::Reference,
                "moved",
            ));
        }
        reference.delete()
    });
    map_stale(result)?;
    sync_directories(repository.path(), [name])
}

fn map_stale(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Git2(error))
            if matches!(
                error.code(),
                git2::ErrorCode::Modified | git2::ErrorCode::NotFound
            ) =>
        {
            Err(Error::StaleReference)
        }
        result => result,
    }
}

/// Returns whether the name is a directory of an existing reference, or below an existing reference.
fn collides(repository: &git2::Repository, name: &str) -> Result<bool> {
    let start = "refs/heads/".len().min(name.len());
    let parents = name
        .match_indices('/')
        .map(|(at, _)| at)
        .filter(|&at| at >= start);
    for at in parents {
        if target(repository, name.get(..at).unwrap_or_default())?.is_some() {
            return Ok(true);
        }
    }
    Ok(repository.references_glob(&format!("{name}/*"))?.next().is_some())
}

/// Makes updates of these references durable: syncs the directories that contain their files, packed references and packs.
///
/// `git` syncs the files that it writes, but not the directories in which it renames them. A power failure within seconds
/// would undo the update.
fn sync_directories<'a>(root: &Path, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let ancestors = names
        .into_iter()
        .flat_map(|name| Path::new(name).ancestors().skip(1));
    let directories: BTreeSet<PathBuf> = ancestors
        .chain([Path::new("objects/pack"), Path::new("objects")])
        .map(|directory| root.join(directory))
        .collect();
    for directory in directories {
        match sync_directory(&directory) {
            // Deleting a reference also deletes its empty directories.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            synced => synced?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{NameFilter, PageWindow};

    #[test]
    fn name_filter_matches_start_end_and_middle() {
        for (search, name, accepted) in [
            ("", "x", true),
            ("eat", "Feature/x", true),
            ("^feat", "Feature/x", true),
            ("^eat", "feature", false),
            ("/X$", "feature/x", true),
            ("feature$", "feature/x", false),
            ("^x$", "x", true),
            ("^x$", "xx", false),
            ("^", "anything", true),
            (".*", "feature", false),
        ] {
            assert_eq!(
                NameFilter::new(Some(search)).accepts(name),
                accepted,
                "{search} {name}"
            );
        }
        assert!(NameFilter::new(None).accepts("x"));
    }

    #[test]
    fn window_ends_with_the_list() {
        let items = [1, 2, 3];
        assert_eq!(
            PageWindow {
                offset: 1,
                limit: usize::MAX
            }
            .of(&items),
            [2, 3]
        );
        assert_eq!(PageWindow { offset: 0, limit: 2 }.of(&items), [1, 2]);
        assert!(PageWindow { offset: 9, limit: 1 }.of(&items).is_empty());
        assert!(PageWindow { offset: 0, limit: 0 }.of(&items).is_empty());
    }
}
