//! Comparison of two commits.

use super::{CommitQuery, CommitSelection, Diff, Error, Oid, Repository, Result};

/// Maximum number of commits in a comparison; the newest are returned.
const MAX_COMMITS: usize = 10_000;

/// The commits and changes between two commits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Commits that are reachable from the second and not from the first, oldest first.
    pub commits: Vec<Oid>,
    /// The changes of these commits.
    pub diff: Diff,
    /// Whether both are the same commit.
    pub same_ref: bool,
    /// Whether the diff exceeded the time limit and was omitted.
    pub timeout: bool,
}

impl Repository {
    /// Compares two commits. The diff starts at the merge base, as in `git diff from...to`. It starts at
    /// `from` if `straight` is set or the commits have no merge base.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if either is not a commit.
    pub async fn compare(&self, from: Oid, to: Oid, straight: bool) -> Result<Comparison> {
        let selection = CommitSelection {
            tips: vec![to],
            hidden: vec![from],
            ..CommitSelection::default()
        };
        let mut commits = self
            .list_commits(CommitQuery {
                selection,
                offset: 0,
                limit: MAX_COMMITS,
            })
            .await?;
        commits.reverse();
        let base = if straight {
            None
        } else {
            self.merge_base(vec![from, to]).await?
        };
        let (diff, timeout) = match self.diff_between(base.unwrap_or(from), to).await {
            Ok(diff) => (diff, false),
            Err(Error::Timeout) => (Diff::default(), true),
            Err(error) => return Err(error),
        };
        Ok(Comparison {
            commits,
            diff,
            same_ref: from == to,
            timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_repository::TestRepository;

    #[tokio::test]
    async fn comparison_matches_git_log_and_diff() {
        let sample = TestRepository::with_history();
        for (from, to) in [("main~20", "main"), ("main", "apart"), ("side-53", "main")] {
            for (straight, dots) in [(false, "..."), (true, "..")] {
                let (one, other) = (sample.id(from), sample.id(to));
                let comparison = sample.repository.compare(one, other, straight).await.unwrap();
                let mut log = sample.ids(&["log", "--format=%H", &format!("{from}..{to}")]);
                log.reverse();
                assert_eq!(comparison.commits, log, "{from} {to}");
                let names = sample.git(&["diff", "-M30%", "--name-only", "-z", &format!("{from}{dots}{to}")]);
                let ours: String = comparison
                    .diff
                    .entries
                    .iter()
                    .map(|entry| format!("{}\0", entry.new_path))
                    .collect();
                assert_eq!(ours, names, "{from}{dots}{to}");
                assert!(!comparison.same_ref && !comparison.timeout);
            }
        }
        let main = sample.id("main");
        let same = sample.repository.compare(main, main, false).await.unwrap();
        assert_eq!(
            same,
            Comparison {
                same_ref: true,
                ..Comparison::default()
            }
        );
    }
}
