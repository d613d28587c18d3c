//! Trees: entries at a path, and listings.

use super::blobs::blob_size;
use super::history::History;
use super::refs::PageWindow;
use super::{Error, Oid, Repository, Result, commit, object_memory, path};

/// Maximum number of entries that a recursive listing visits.
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum size of the paths of all entries that a listing visits, in bytes. Each entry of a directory repeats its
/// path, and a few objects can have long paths.
const MAX_PATH_BYTES: usize = 64 << 20;

/// Kind of a tree entry; listings are in this order: trees, blobs, submodules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A directory.
    Tree,
    /// A file or symbolic link.
    Blob,
    /// A submodule: a commit of another repository.
    Commit,
}

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The object ID.
    pub id: Oid,
    /// The file mode as Git stores it, such as `0o100644`.
    pub mode: u32,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The path from the root of the tree; bytes that are not UTF-8 are replaced.
    pub path: String,
}

impl TreeEntry {
    /// Returns the last component of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The entry at a path of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEntry {
    /// The entry; none if the path does not exist.
    pub entry: Option<TreeEntry>,
    /// The content length in bytes for a file, else 0.
    pub size: u64,
}

/// A page of a tree listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePage {
    /// The entries of the page.
    pub entries: Vec<TreeEntry>,
    /// Number of entries on all pages.
    pub total: usize,
}

impl Repository {
    /// Returns the entry at a path of a commit (the root for an empty path) and its size. The result is
    /// cached.
    ///
    /// # Errors
    /// [`Error::RevisionNotFound`] if the ID is not a commit.
    pub async fn locate(&self, commit: Oid, path: &str) -> Result<PathEntry> {
        let path = path.to_owned();
        let known = |history: &History| {
            let key = (history.opening, commit, path.clone());
            history.caches.located.get(&key)
        };
        if let Some(located) = self.cached(known) {
            return Ok(located);
        }
        self.blocking(move |opened| {
            let located = opened.with_git2(|repository| {
                let entry = entry_at(repository, &root(repository, commit)?, &path)?;
                let size = match &entry {
                    Some(entry) if entry.kind == EntryKind::Blob => blob_size(&repository.odb()?, entry.id)?,
                    _ => 0,
                };
                Ok(PathEntry { entry, size })
            })?;
            if located.entry.is_some() {
                let key = (opened.history.opening, commit, path);
                opened.history.caches.located.insert(key, located.clone());
            }
            Ok(located)
        })
        .await
    }

    /// Lists the directory at `path` (the root if empty) in a commit: trees, then blobs, then submodules.
    /// Each kind is ordered by name, or by path if `recursive`. A path that is not a directory lists nothing.
    ///
    /// # Errors
    /// [`Error::RevisionNotFound`] if the ID is not a commit, [`Error::LimitExceeded`] for a recursive
    /// listing of more than a million entries or more than 64 MiB of paths.
    pub async fn tree(
        &self,
        commit: Oid,
        path: &str,
        recursive: bool,
        window: PageWindow,
    ) -> Result<TreePage> {
        let path = path.to_owned();
        self.git2(move |repository| {
            let root = root(repository, commit)?;
            let Some(entry) =
                entry_at(repository, &root, &path)?.filter(|entry| entry.kind == EntryKind::Tree)
            else {
                return Ok(TreePage {
                    entries: Vec::new(),
                    total: 0,
                });
            };
            let mut found = list(repository, entry.id, recursive)?;
            found.sort_unstable_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
            let prefix = path::components(&path).collect::<Vec<_>>().join("/");
            let entries = window
                .of(&found)
                .iter()
                .map(|entry| entry.placed_below(&prefix))
                .collect();
            Ok(TreePage {
                entries,
                total: found.len(),
            })
        })
        .await
    }
}

/// An entry found by [`list`], with its relative raw path.
struct RawEntry {
    kind: EntryKind,
    path: Vec<u8>,
    mode: u32,
    id: Oid,
}

impl RawEntry {
    fn placed_below(&self, prefix: &str) -> TreeEntry {
        let relative = String::from_utf8_lossy(&self.path);
        let path = if prefix.is_empty() {
            relative.into_owned()
        } else {
            format!("{prefix}/{relative}")
        };
        TreeEntry {
            id: self.id,
            mode: self.mode,
            kind: self.kind,
            path,
        }
    }
}

fn list(repository: &git2::Repository, tree: Oid, recursive: bool) -> Result<Vec<RawEntry>> {
    let mut found = Vec::new();
    let mut remaining_bytes = MAX_PATH_BYTES;
    // An explicit stack: a malicious tree can be deeper than the thread's stack allows.
    let mut pending = vec![(tree, Vec::new())];
    while let Some((tree, prefix)) = pending.pop() {
        for entry in find(repository, tree)?.iter() {
            let kind = kind(entry.filemode_raw());
            let length = prefix.len() + entry.name_bytes().len();
            let Some(rest) = remaining_bytes.checked_sub(length) else {
                return Err(Error::LimitExceeded("the paths of the tree are too long"));
            };
            remaining_bytes = rest;
            let mut path = Vec::with_capacity(length);
            path.extend_from_slice(&prefix);
            path.extend_from_slice(entry.name_bytes());
            if recursive && kind == EntryKind::Tree {
                let mut below = path.clone();
                below.push(b'/');
                pending.push((entry.id(), below));
            }
            found.push(RawEntry {
                kind,
                path,
                mode: mode(entry.filemode_raw()),
                id: entry.id(),
            });
            if found.len() > MAX_ENTRIES {
                return Err(Error::LimitExceeded("the tree has too many entries"));
            }
        }
    }
    Ok(found)
}

/// Returns the root tree of a commit.
pub(super) fn root(repository: &git2::Repository, commit: Oid) -> Result<git2::Tree<'_>> {
    let commit = commit::read(repository, commit).map_err(|error| match error {
        Error::ObjectNotFound => Error::RevisionNotFound,
        other => other,
    })?;
    find(repository, commit.tree)
}

/// Returns a tree.
///
/// # Errors
/// [`Error::LimitExceeded`] if it takes too much memory.
pub(super) fn find(repository: &git2::Repository, id: Oid) -> Result<git2::Tree<'_>> {
    object_memory::check(repository, id)?;
    Ok(repository.find_tree(id)?)
}

/// Returns the entry at a path below a tree; the tree itself for an empty path.
pub(super) fn entry_at(
    repository: &git2::Repository,
    tree: &git2::Tree<'_>,
    path: &str,
) -> Result<Option<TreeEntry>> {
    let components: Vec<&str> = path::components(path).collect();
    if components.is_empty() {
        let mode = 0o040_000;
        return Ok(Some(TreeEntry {
            id: tree.id(),
            mode,
            kind: EntryKind::Tree,
            path: String::new(),
        }));
    }
    // libgit2 fails for such paths; here they do not exist.
    if path.contains('\0') || components.contains(&"..") {
        return Ok(None);
    }
    let mut directory = None;
    let mut remaining = components.iter();
    while let Some(component) = remaining.next() {
        let found = directory.as_ref().unwrap_or(tree).get_name(component);
        let Some((id, raw)) = found.map(|entry| (entry.id(), entry.filemode_raw())) else {
            return Ok(None);
        };
        if remaining.len() == 0 {
            return Ok(Some(TreeEntry {
                id,
                mode: mode(raw),
                kind: kind(raw),
                path: components.join("/"),
            }));
        }
        if kind(raw) != EntryKind::Tree {
            return Ok(None);
        }
        directory = Some(find(repository, id)?);
    }
    Ok(None)
}

/// Returns the object kind of a file mode.
pub(super) fn kind(mode: i32) -> EntryKind {
    match mode & 0o170_000 {
        0o040_000 => EntryKind::Tree,
        0o160_000 => EntryKind::Commit,
        _ => EntryKind::Blob,
    }
}

fn mode(raw: i32) -> u32 {
    u32::try_from(raw).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::EntryKind;
    use crate::testing::{self, Fixture};
    use crate::{Error, Oid, PageWindow};

    const ALL: PageWindow = PageWindow {
        offset: 0,
        limit: usize::MAX,
    };

    #[tokio::test]
    async fn tree_lists_trees_then_blobs_then_submodules() {
        let fixture = Fixture::new("main").await;
        let files = [
            ("b.txt", "1"),
            ("a.txt", "2"),
            ("z/q/deep", "3"),
            ("z/p", "4"),
            ("a/x", "5"),
        ];
        let commit = testing::commit(&fixture.repository, "main", &files).await;
        let tree = fixture.git(&["ls-tree", &commit.to_string()]) + &format!("160000 commit {commit}\tC\n");
        let tree = fixture.git_stdin(&["mktree"], tree.as_bytes());
        let commit = fixture.git(&["commit-tree", "-m", "m", tree.trim()]);
        let commit = Oid::from_str(commit.trim()).unwrap();
        let paths = |page: super::TreePage| {
            page.entries
                .into_iter()
                .map(|entry| entry.path)
                .collect::<Vec<_>>()
        };

        let page = fixture.repository.tree(commit, "", false, ALL).await.unwrap();
        assert_eq!(page.total, 5);
        assert_eq!(page.entries[0].mode, 0o040_000);
        assert_eq!(page.entries[4].kind, EntryKind::Commit);
        assert_eq!(paths(page), ["a", "z", "a.txt", "b.txt", "C"]);

        let page = fixture.repository.tree(commit, "", true, ALL).await.unwrap();
        assert_eq!(
            paths(page),
            ["a", "z", "z/q", "a.txt", "a/x", "b.txt", "z/p", "z/q/deep", "C"]
        );
        let page = fixture
            .repository
            .tree(commit, "/z/", true, PageWindow { offset: 1, limit: 1 })
            .await
            .unwrap();
        assert_eq!((page.total, paths(page)), (3, vec!["z/p".to_owned()]));
        for nothing in ["nope", "a.txt", "C", "z/../a", "a\0"] {
            let page = fixture
                .repository
                .tree(commit, nothing, false, ALL)
                .await
                .unwrap();
            assert_eq!((page.total, page.entries.len()), (0, 0), "{nothing:?}");
        }
        assert!(matches!(
            fixture.repository.tree(Oid::ZERO_SHA1, "", false, ALL).await,
            Err(Error::RevisionNotFound)
        ));
    }

    #[tokio::test]
    async fn recursive_listing_limits_the_size_of_paths() {
        let fixture = Fixture::new("main").await;
        let blob = fixture.git_stdin(&["hash-object", "-w", "--stdin"], b"x");
        let entries = (0..20_000).map(|number| format!("100644 blob {}\t{number}\n", blob.trim()));
        let mut tree = fixture.git_stdin(&["mktree"], entries.collect::<String>().as_bytes());
        for _ in 0..2 {
            let entry = format!("040000 tree {}\t{}\n", tree.trim(), "d".repeat(2_000));
            tree = fixture.git_stdin(&["mktree"], entry.as_bytes());
        }
        let commit = fixture.git(&["commit-tree", "-m", "m", tree.trim()]);
        let commit = Oid::from_str(commit.trim()).unwrap();
        let window = PageWindow { offset: 0, limit: 1 };
        let listed = fixture.repository.tree(commit, "", true, window).await;
        assert!(matches!(listed, Err(Error::LimitExceeded(_))), "{listed:?}");
        let page = fixture.repository.tree(commit, "", false, window).await.unwrap();
        assert_eq!(page.total, 1);
    }

    #[tokio::test]
    async fn locate_finds_entry_by_exact_path() {
        let fixture = Fixture::new("main").await;
        let commit = testing::commit(&fixture.repository, "main", &[("d/f:[*].txt", "x")]).await;
        let at = async |path: &str| fixture.repository.locate(commit, path).await.unwrap().entry;
        let entry = at("./d/f:[*].txt").await.unwrap();
        assert_eq!(
            (entry.name(), entry.mode, entry.kind),
            ("f:[*].txt", 0o100_644, EntryKind::Blob)
        );
        assert_eq!(
            entry.id.to_string(),
            fixture.git_stdin(&["hash-object", "--stdin"], b"x").trim()
        );
        assert!(at("d/f*").await.is_none());
        assert_eq!(at("").await.unwrap().kind, EntryKind::Tree);
    }
}
