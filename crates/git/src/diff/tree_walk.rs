//! Differences between two trees, read in this process within a limit.

use std::collections::BTreeMap;

use git2::FileMode;

use crate::{Oid, Result, trees};

/// Maximum depth of nested trees.
const MAX_DEPTH: usize = 64;
/// Bytes of a tree entry besides its name: the mode, two separators and the ID.
const ENTRY_BYTES: usize = 28;
/// Type bits of a file mode.
const TYPE_BITS: i32 = 0o170_000;

/// One side of a change: the mode and the object ID.
pub(super) type Side = (i32, Oid);

/// A file, symbolic link or submodule that differs. A side is `None` if it does not exist or is a directory.
pub(super) struct TreeChange {
    pub(super) path: Vec<u8>,
    pub(super) old: Option<Side>,
    pub(super) new: Option<Side>,
}

/// Comparison of trees within a limit. A push of a few objects can contain one directory many times on many levels, so
/// the number of paths is not limited by the size of the repository.
pub(super) struct TreeWalk<'a> {
    repository: &'a git2::Repository,
    remaining_bytes: usize,
}

impl<'a> TreeWalk<'a> {
    /// `max_bytes` limits the sizes of all trees that are read, and of all paths.
    pub(super) fn new(repository: &'a git2::Repository, max_bytes: usize) -> Self {
        Self {
            repository,
            remaining_bytes: max_bytes,
        }
    }

    /// Returns how many bytes can be read until the limit is exceeded.
    pub(super) fn remaining_bytes(&self) -> usize {
        self.remaining_bytes
    }

    /// Calls `visit` for each difference in Git's order until it returns false. Returns whether all differences were
    /// visited.
    ///
    /// # Errors
    /// Failures of the repository.
    pub(super) fn compare(
        &mut self,
        before: Option<Oid>,
        after: Option<Oid>,
        visit: &mut impl FnMut(TreeChange) -> bool,
    ) -> Result<bool> {
        self.below(before, after, &[], 0, visit)
    }

    fn below(
        &mut self,
        before: Option<Oid>,
        after: Option<Oid>,
        prefix: &[u8],
        depth: usize,
        visit: &mut impl FnMut(TreeChange) -> bool,
    ) -> Result<bool> {
        if before == after {
            return Ok(true);
        }
        let mut pairs = BTreeMap::new();
        if depth > MAX_DEPTH || !self.read(before, &mut pairs, |pair, side| pair.0 = Some(side))? {
            return Ok(false);
        }
        if !self.read(after, &mut pairs, |pair, side| pair.1 = Some(side))? {
            return Ok(false);
        }
        for (name, (old, new)) in pairs {
            if old == new {
                continue;
            }
            let path = [prefix, &name].concat();
            let is_within_limit = self.take(path.len());
            let complete = if !is_within_limit {
                false
            } else if name.ends_with(b"/") {
                let id = |side: Option<Side>| side.map(|(_, id)| id);
                self.below(id(old), id(new), &path, depth + 1, visit)?
            } else {
                visit(TreeChange { path, old, new })
            };
            if !complete {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the entries of a tree. The name of a directory ends in a slash, which is also its place in Git's order.
    /// Returns false if the limit is exceeded.
    fn read(
        &mut self,
        tree: Option<Oid>,
        pairs: &mut BTreeMap<Vec<u8>, (Option<Side>, Option<Side>)>,
        set: fn(&mut (Option<Side>, Option<Side>), Side),
    ) -> Result<bool> {
        let Some(tree) = tree else { return Ok(true) };
        for entry in trees::find(self.repository, tree)?.iter() {
            let mode = entry.filemode_raw();
            let mut name = entry.name_bytes().to_vec();
            if !self.take(name.len() + ENTRY_BYTES) {
                return Ok(false);
            }
            if kind(mode) == i32::from(FileMode::Tree) {
                name.push(b'/');
            }
            set(pairs.entry(name).or_default(), (mode, entry.id()));
        }
        Ok(true)
    }

    /// Counts bytes. Returns false if they exceed the limit.
    fn take(&mut self, bytes: usize) -> bool {
        let rest = self.remaining_bytes.checked_sub(bytes);
        self.remaining_bytes = rest.unwrap_or_default();
        rest.is_some()
    }
}

/// Returns the type bits of a file mode.
pub(super) fn kind(mode: i32) -> i32 {
    mode & TYPE_BITS
}

#[cfg(test)]
mod tests {
    use super::TreeWalk;
    use crate::Oid;
    use crate::testing::Fixture;

    /// Creates a tree with ten entries of the given kind for the same object.
    fn tree_of(fixture: &Fixture, mode: &str, kind: &str, id: &str) -> String {
        let entries = (0..10).map(|number| format!("{mode} {kind} {id}\tentry{number}\n"));
        let tree = fixture.git_stdin(&["mktree"], entries.collect::<String>().as_bytes());
        tree.trim().to_owned()
    }

    /// A few objects with 10 to the power of 13 paths.
    fn nested_trees(fixture: &Fixture, mode: &str, kind: &str, id: &str) -> Oid {
        let leaf = tree_of(fixture, mode, kind, id);
        let root = (0..12).fold(leaf, |tree, _| tree_of(fixture, "040000", "tree", &tree));
        Oid::from_str(&root).expect("an ID")
    }

    #[tokio::test]
    async fn walk_of_many_paths_in_few_objects_ends_at_its_limit() {
        let fixture = Fixture::new("main").await;
        let repository = git2::Repository::open(fixture.repository.path()).expect("a repository");
        let blob = fixture.git_stdin(&["hash-object", "-w", "--stdin"], b"x");
        let files = nested_trees(&fixture, "100644", "blob", blob.trim());
        let empty = fixture.git_stdin(&["mktree"], b"");
        let directories = nested_trees(&fixture, "040000", "tree", empty.trim());
        for (tree, has_files) in [(files, true), (directories, false)] {
            let mut visited = 0;
            let mut walk = TreeWalk::new(&repository, 1 << 20);
            let complete = walk.compare(None, Some(tree), &mut |change| {
                visited += change.path.len();
                true
            });
            assert!(!complete.expect("a walk"), "{has_files}");
            assert_eq!(visited > 0, has_files);
            assert!(visited <= 1 << 20, "{visited}");
        }
    }

    #[tokio::test]
    async fn walk_counts_long_names_in_each_path() {
        let fixture = Fixture::new("main").await;
        let repository = git2::Repository::open(fixture.repository.path()).expect("a repository");
        let blob = fixture.git_stdin(&["hash-object", "-w", "--stdin"], b"x");
        let files = tree_of(&fixture, "100644", "blob", blob.trim());
        let name = "n".repeat(50_000);
        let root = fixture.git_stdin(&["mktree"], format!("040000 tree {files}\t{name}\n").as_bytes());
        let root = Oid::from_str(root.trim()).expect("an ID");
        let mut visited = 0;
        let mut walk = TreeWalk::new(&repository, 250_000);
        let complete = walk.compare(None, Some(root), &mut |_| {
            visited += 1;
            true
        });
        assert!(!complete.expect("a walk"));
        assert_eq!(visited, 2);
    }
}
