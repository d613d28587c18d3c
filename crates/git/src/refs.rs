//! What branches and tags have in common: searching, paging, and moving references by compare-and-swap.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Error, Oid, Repository, Result};

/// How long a reference that some `git` process has locked is tried again; `git` itself waits as long for the
/// packed ones.
const LOCKED_PATIENCE: Duration = Duration::from_secs(1);

/// The longest name of a file in bytes, on every file system that repositories are kept on.
const LONGEST_FILE_NAME: usize = 255;

/// From which age on a lock file is one that a crash left behind. Its maker needs it for milliseconds; the rest
/// allows for large packed references and for clocks that differ between nodes.
const FORGOTTEN: Duration = Duration::from_secs(5 * 60);

/// A stretch of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How many items to leave out at the start.
    pub offset: usize,
    /// How many to take at most.
    pub limit: usize,
}

impl Window {
    /// The items of the window; none past the end.
    pub(super) fn of<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        let start = self.offset.min(items.len());
        let end = start.saturating_add(self.limit).min(items.len());
        items.get(start..end).unwrap_or_default()
    }
}

/// A filter on names: `^x` at the start, `x$` at the end, both for the whole, else anywhere; case does not count.
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
    /// What references point at, by their full names, in that order.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn targets(&self, names: Vec<String>) -> Result<Vec<Option<Oid>>> {
        self.git2(move |repository| names.iter().map(|name| target(repository, name)).collect())
            .await
    }
}

/// What a full reference name points at, through symbolic references.
pub(super) fn target(repository: &git2::Repository, name: &str) -> Result<Option<Oid>> {
    // Asking libgit2 for an invalid name, or one that no file can bear, is an error of its own; to us it is just
    // not there.
    let too_long = name
        .split('/')
        .any(|component| component.len() > LONGEST_FILE_NAME);
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

/// The references below a prefix such as `refs/heads/`: short name and target, by name. Names that are no UTF-8,
/// and references that lead nowhere, are left out.
pub(super) fn below(
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
/// [`Error::ReferenceExists`], also when a directory of the name's would be a reference or the other way round.
pub(super) fn create(repository: &git2::Repository, name: &str, to: Oid) -> Result<()> {
    if collides(repository, name)? {
        return Err(Error::ReferenceExists);
    }
    match unlocked(repository, name, || {
        repository.reference(name, to, false, "").map(drop)
    }) {
        Err(Error::Git2(error)) if error.code() == git2::ErrorCode::Exists => Err(Error::ReferenceExists),
        result => result,
    }
}

/// Moves a reference that must still point at `from`.
///
/// # Errors
/// [`Error::StaleReference`] when it does not.
pub(super) fn advance(repository: &git2::Repository, name: &str, from: Oid, to: Oid) -> Result<()> {
    let result = unlocked(repository, name, || {
        match repository.reference_matching(name, to, true, from, "") {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    });
    stale(result)
}

/// Deletes a reference that must still point at `from`.
///
/// # Errors
/// [`Error::StaleReference`] when it does not.
pub(super) fn delete(repository: &git2::Repository, name: &str, from: Oid) -> Result<()> {
    let result = unlocked(repository, name, || {
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
    stale(result)?;
    sync_nearest_directory(repository.path(), name)
}

fn stale(result: Result<()>) -> Result<()> {
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

/// Repeats a change to a reference while another process holds its lock file for a moment, and clears away a lock
/// that a crash left behind. The caller has the write lock, so nobody else clears at the same time.
///
/// # Errors
/// [`Error::Locked`] when the lock file stays.
pub(super) fn unlocked(
    repository: &git2::Repository,
    name: &str,
    change: impl Fn() -> std::result::Result<(), git2::Error>,
) -> Result<()> {
    let deadline = Instant::now() + LOCKED_PATIENCE;
    loop {
        match change() {
            Err(error) if error.code() == git2::ErrorCode::Locked => {
                let cleared = clear_forgotten(&repository.path().join(format!("{name}.lock")))?
                    | clear_forgotten(&repository.path().join("packed-refs.lock"))?;
                if cleared {
                    continue;
                }
                if Instant::now() >= deadline {
                    return Err(Error::Locked);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return Ok(result?),
        }
    }
}

/// Removes a lock file that is too old for its maker to be alive; answers whether it did.
fn clear_forgotten(path: &Path) -> Result<bool> {
    let modified = match std::fs::metadata(path).and_then(|metadata| metadata.modified()) {
        Ok(modified) => modified,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let is_forgotten = modified.elapsed().is_ok_and(|age| age > FORGOTTEN);
    if is_forgotten {
        tracing::warn!(path = %path.display(), "removed a stale lock file");
        std::fs::remove_file(path)?;
    }
    Ok(is_forgotten)
}

/// Whether the name would be a directory of an existing reference, or lie below one.
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

/// Makes a deletion durable: the directory that held the file, or the nearest that is left of it.
fn sync_nearest_directory(root: &Path, name: &str) -> Result<()> {
    let path = root.join(name);
    for directory in path
        .ancestors()
        .skip(1)
        .take_while(|directory| directory.starts_with(root))
    {
        match File::open(directory) {
            Ok(directory) => return Ok(directory.sync_all()?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{NameFilter, Window};
    use crate::Error;
    use crate::testing::{self, Fixture};

    #[test]
    fn filters_by_start_end_and_middle() {
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
            Window {
                offset: 1,
                limit: usize::MAX
            }
            .of(&items),
            [2, 3]
        );
        assert_eq!(Window { offset: 0, limit: 2 }.of(&items), [1, 2]);
        assert!(Window { offset: 9, limit: 1 }.of(&items).is_empty());
        assert!(Window { offset: 0, limit: 0 }.of(&items).is_empty());
    }

    #[tokio::test]
    async fn waits_for_a_lock_of_git_and_clears_a_forgotten_one() {
        let fixture = Fixture::new("main").await;
        let first = testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        let second = testing::commit(&fixture.repository, "main", &[("a", "2")]).await;
        let lock = fixture.path().join("refs/heads/main.lock");
        std::fs::write(&lock, "").unwrap();
        let advance =
            move |repository: &git2::Repository| super::advance(repository, "refs/heads/main", second, first);
        assert!(matches!(
            fixture.repository.git2(advance).await,
            Err(Error::Locked)
        ));
        let held = lock.clone();
        let release = tokio::task::spawn_blocking(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::fs::remove_file(held).unwrap();
        });
        fixture.repository.git2(advance).await.unwrap();
        release.await.unwrap();
        assert_eq!(fixture.git(&["rev-parse", "main"]).trim(), first.to_string());

        let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
        for left_behind in [lock, fixture.path().join("packed-refs.lock")] {
            std::fs::File::create(&left_behind)
                .unwrap()
                .set_modified(hours_ago)
                .unwrap();
        }
        fixture
            .repository
            .delete_branch("main", Some(first))
            .await
            .unwrap();
        fixture
            .repository
            .create_branch("main", &second.to_string())
            .await
            .unwrap();
        assert_eq!(
            fixture.git(&["for-each-ref", "--format=%(objectname)"]).trim(),
            second.to_string()
        );
    }
}
