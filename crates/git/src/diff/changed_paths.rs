//! Paths of the files that commits changed.

use super::super::{Oid, Repository, Result, commit, trees};

/// Files that a commit changed against its first parent, in Git's order. A renamed file is listed as removed
/// and added.
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
    /// Returns the changed files of each commit, in the given order.
    ///
    /// # Errors
    /// If one of the IDs is not a commit, and failures of the repository.
    pub async fn changed_paths(&self, commits: Vec<Oid>) -> Result<Vec<ChangedPaths>> {
        self.git2(move |repository| commits.iter().map(|id| of_commit(repository, *id)).collect())
            .await
    }
}

fn of_commit(repository: &git2::Repository, id: Oid) -> Result<ChangedPaths> {
    let commit = commit::read(repository, id)?;
    let before = match commit.parents.first() {
        Some(parent) => Some(trees::find(repository, commit::read(repository, *parent)?.tree)?),
        None => None,
    };
    let after = trees::find(repository, commit.tree)?;
    let diff = repository.diff_tree_to_tree(before.as_ref(), Some(&after), None)?;
    let mut changed = ChangedPaths::default();
    for delta in diff.deltas() {
        let path = |file: git2::DiffFile<'_>| {
            let bytes = file.path_bytes().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        match delta.status() {
            git2::Delta::Added => changed.added.push(path(delta.new_file())),
            git2::Delta::Deleted => changed.removed.push(path(delta.old_file())),
            _ => changed.modified.push(path(delta.new_file())),
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::ChangedPaths;
    use crate::testing::{Fixture, commit};

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
