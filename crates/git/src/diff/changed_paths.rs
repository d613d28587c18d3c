//! Paths of the files that commits changed.

use super::tree_walk::{TreeChange, TreeWalk, kind};
use crate::{Oid, Repository, Result, commit};

/// Maximum number of files of one commit.
const MAX_FILES: usize = 1_000;
/// Maximum size of the paths of all commits, in bytes.
const MAX_PATH_BYTES: usize = 1 << 20;
/// Maximum size of the trees that are read to compare one commit, in bytes.
const MAX_COMMIT_TREE_BYTES: usize = 64 << 20;
/// Maximum size of the trees that are read to compare all commits, in bytes.
const MAX_TREE_BYTES: usize = 256 << 20;

/// Files that a commit changed against its first parent, in Git's order. A renamed file is listed as removed
/// and added, and so is a file that became a symbolic link or a submodule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedPaths {
    /// Added files.
    pub added: Vec<String>,
    /// Files with a changed content or mode.
    pub modified: Vec<String>,
    /// Removed files.
    pub removed: Vec<String>,
}

impl Repository {
    /// Returns the changed files of each commit, in the given order. Lists at most 1,000 files of each commit and 1 MiB
    /// of paths, and fewer of a commit whose trees are too large. The last commits have precedence.
    ///
    /// # Errors
    /// If one of the IDs is not a commit, and failures of the repository.
    pub async fn changed_paths(&self, commits: Vec<Oid>) -> Result<Vec<ChangedPaths>> {
        let limits = TreeLimits {
            of_commit: MAX_COMMIT_TREE_BYTES,
            of_all: MAX_TREE_BYTES,
        };
        self.git2(move |repository| of_commits(repository, &commits, limits))
            .await
    }
}

/// Limits on the size of trees, in bytes.
#[derive(Clone, Copy)]
struct TreeLimits {
    of_commit: usize,
    of_all: usize,
}

/// Returns the changed files of commits. The last commits are compared first, because callers pass the newest ones
/// last: the limits for all commits must not omit their files.
fn of_commits(
    repository: &git2::Repository,
    commits: &[Oid],
    limits: TreeLimits,
) -> Result<Vec<ChangedPaths>> {
    let (mut tree_bytes, mut path_bytes) = (limits.of_all, MAX_PATH_BYTES);
    let mut found = Vec::with_capacity(commits.len());
    for id in commits.iter().rev() {
        let limit = limits.of_commit.min(tree_bytes);
        let mut walk = TreeWalk::new(repository, limit);
        found.push(of_commit(repository, *id, &mut walk, &mut path_bytes)?);
        tree_bytes -= limit - walk.remaining_bytes();
    }
    found.reverse();
    Ok(found)
}

fn of_commit(
    repository: &git2::Repository,
    id: Oid,
    walk: &mut TreeWalk<'_>,
    remaining_bytes: &mut usize,
) -> Result<ChangedPaths> {
    let commit = commit::read(repository, id)?;
    let before = match commit.parents.first() {
        Some(parent) => Some(commit::read(repository, *parent)?.tree),
        None => None,
    };
    let mut changed = ChangedPaths::default();
    let mut files = 0;
    walk.compare(before, Some(commit.tree), &mut |change| {
        let Some(rest) = remaining_bytes.checked_sub(change.path.len()) else {
            return false;
        };
        files += 1;
        if files > MAX_FILES {
            return false;
        }
        *remaining_bytes = rest;
        changed.add(&change);
        true
    })?;
    Ok(changed)
}

impl ChangedPaths {
    fn add(&mut self, change: &TreeChange) {
        let path = String::from_utf8_lossy(&change.path).into_owned();
        match (change.old, change.new) {
            (Some(old), Some(new)) if kind(old.0) == kind(new.0) => self.modified.push(path),
            (Some(_), Some(_)) => {
                self.removed.push(path.clone());
                self.added.push(path);
            }
            (Some(_), None) => self.removed.push(path),
            (None, _) => self.added.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangedPaths, MAX_FILES, TreeLimits, of_commits};
    use crate::Oid;
    use crate::testing::{Fixture, commit};

    #[tokio::test]
    async fn changed_paths_of_large_commit_are_the_first_files() {
        let fixture = Fixture::new("main").await;
        let names: Vec<String> = (0..=MAX_FILES).map(|number| format!("{number:04}")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let large = commit(&fixture.repository, "main", &files).await;
        let changed = fixture
            .repository
            .changed_paths(vec![large])
            .await
            .expect("changes");
        assert_eq!(changed[0].added, names[..MAX_FILES]);
    }

    #[tokio::test]
    async fn large_trees_of_a_commit_do_not_omit_files_of_newer_commits() {
        let fixture = Fixture::new("main").await;
        let names: Vec<String> = (0..100).map(|number| format!("large/{number:02}")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let mut commits = vec![commit(&fixture.repository, "main", &files).await];
        for name in ["second", "third"] {
            commits.push(commit(&fixture.repository, "main", &[(name, "x")]).await);
        }
        let repository = git2::Repository::open(fixture.repository.path()).expect("a repository");
        let numbers = |of_commit: usize, of_all: usize| -> Vec<usize> {
            let changed = of_commits(&repository, &commits, TreeLimits { of_commit, of_all });
            let changed = changed.expect("changes");
            changed.iter().map(|paths| paths.added.len()).collect()
        };
        assert_eq!(numbers(10_000, 30_000), [100, 1, 1]);
        assert_eq!(numbers(1_000, 30_000), [0, 1, 1]);
        // The newest commit is compared first. Its directories and its path have 172 bytes.
        assert_eq!(numbers(1_000, 200), [0, 0, 1]);
    }

    #[tokio::test]
    async fn changed_paths_list_replaced_directories_and_changed_types() {
        let fixture = Fixture::new("main").await;
        let first = commit(
            &fixture.repository,
            "main",
            &[("a", "1"), ("a.b", "1"), ("link", "a"), ("tool", "1")],
        )
        .await;
        let stream = "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 0\nfrom refs/heads/main^0\n\
                      D a\nM 100644 inline a/c\ndata 1\n1\nM 120000 inline link\ndata 1\na\n\
                      M 100755 inline tool\ndata 1\n1\n";
        fixture.git_stdin(&["fast-import", "--quiet"], stream.as_bytes());
        let second = fixture.repository.branch("main").await.expect("a branch").commit;
        assert_ne!(first, second);
        let changed = fixture
            .repository
            .changed_paths(vec![second])
            .await
            .expect("changes");
        assert_eq!(changed[0].removed, ["a", "link"]);
        assert_eq!(changed[0].added, ["a/c", "link"]);
        assert_eq!(changed[0].modified, ["tool"]);
        let missing = fixture.repository.changed_paths(vec![Oid::ZERO_SHA1]).await;
        assert!(missing.is_err());
    }

    #[tokio::test]
    async fn changed_paths_distinguish_added_modified_and_removed_files() {
        let fixture = Fixture::new("main").await;
        let first = commit(
            &fixture.repository,
            "main",
            &[("a", "1"), ("b/c", "1"), ("d", "1")],
        )
        .await;
        let stream = "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 0\nfrom refs/heads/main^0\n\
                      D a\nM 100644 inline b/c\ndata 1\n2\nM 100644 inline e\ndata 1\n3\n";
        fixture.git_stdin(&["fast-import", "--quiet"], stream.as_bytes());
        let second = fixture.repository.branch("main").await.expect("a branch").commit;
        let found = fixture
            .repository
            .changed_paths(vec![first, second])
            .await
            .expect("changes");
        let paths = |list: &[&str]| list.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let expected = [
            ChangedPaths {
                added: paths(&["a", "b/c", "d"]),
                ..ChangedPaths::default()
            },
            ChangedPaths {
                added: paths(&["e"]),
                modified: paths(&["b/c"]),
                removed: paths(&["a"]),
            },
        ];
        assert_eq!(found, expected);
    }
}
