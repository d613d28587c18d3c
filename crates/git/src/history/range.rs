//! Revision ranges, as in the `ref_name` parameter of the list of commits.

use super::CommitSelection;
use crate::{Oid, Repository, Result};

/// Default for a missing side of a range.
const HEAD: &str = "HEAD";

impl Repository {
    /// Returns the selection of a revision, of `a..b` (reachable from `b` and not from `a`), or of `a...b`
    /// (reachable from one of them only). A missing side is `HEAD`.
    ///
    /// # Errors
    /// [`crate::Error::RevisionNotFound`] if a revision resolves to no commit.
    pub async fn select(&self, revisions: &str) -> Result<CommitSelection> {
        // Reference names never contain two consecutive dots, so the split is unambiguous.
        if let Some((one, other)) = revisions.split_once("...") {
            let tips = vec![self.side(one).await?, self.side(other).await?];
            let hidden = self.merge_bases(tips.clone()).await?;
            return Ok(CommitSelection {
                tips,
                hidden,
                ..CommitSelection::default()
            });
        }
        if let Some((hidden, tip)) = revisions.split_once("..") {
            let (hidden, tips) = (vec![self.side(hidden).await?], vec![self.side(tip).await?]);
            return Ok(CommitSelection {
                tips,
                hidden,
                ..CommitSelection::default()
            });
        }
        Ok(CommitSelection {
            tips: vec![self.resolve_commit(revisions).await?],
            ..CommitSelection::default()
        })
    }

    async fn side(&self, revision: &str) -> Result<Oid> {
        self.resolve_commit(if revision.is_empty() { HEAD } else { revision })
            .await
    }
}

#[cfg(test)]
mod tests {
    use crate::test_repository::TestRepository;
    use crate::{CommitQuery, Error};

    #[tokio::test]
    async fn ranges_match_git_log() {
        let sample = TestRepository::with_history();
        for revisions in [
            "main",
            "main~9..main",
            "side-33...main",
            "main...apart",
            "..apart",
            "main~3..",
            "v13",
        ] {
            let selection = sample.repository.select(revisions).await.unwrap();
            let page = CommitQuery {
                selection,
                offset: 0,
                limit: usize::MAX,
            };
            let listed = sample.repository.list_commits(page).await.unwrap();
            assert!(!listed.is_empty());
            assert_eq!(
                listed,
                sample.ids(&["log", "--format=%H", revisions]),
                "{revisions}"
            );
        }
    }

    #[tokio::test]
    async fn range_with_unknown_revision_fails() {
        let sample = TestRepository::with_history();
        for revisions in [
            "absent",
            "absent..main",
            "main..absent",
            "main....",
            "--all",
            "main..--all",
            "",
        ] {
            let answer = sample.repository.select(revisions).await;
            assert!(
                matches!(answer, Err(Error::RevisionNotFound)),
                "{revisions}: {answer:?}"
            );
        }
    }
}
