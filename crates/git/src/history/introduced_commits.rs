//! Finds commits in a selection, either directly or as copies that name the original commit.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use super::{CommitSelection, walk};
use crate::{Oid, Repository, Result};

/// Time limit for the search. It reads every commit once, and only jobs run it.
const TIME_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Text before the ID in the message of a copy, as written by `git cherry-pick -x`.
const PICKED: &[u8] = b"(cherry picked from commit ";

/// Number of hex digits of an ID.
const DIGITS: usize = 40;

impl Repository {
    /// Returns the commits of `sought` that are selected, or that the message of a selected commit names as
    /// cherry-picked. The history is walked once, and the walk stops when all are found.
    ///
    /// # Errors
    /// [`crate::Error::ObjectNotFound`] if a tip or hidden ID is not a commit,
    /// [`crate::Error::Timeout`] after twenty minutes.
    pub async fn introduced_commits(
        &self,
        selection: CommitSelection,
        mut sought: HashSet<Oid>,
    ) -> Result<HashSet<Oid>> {
        if sought.is_empty() {
            return Ok(HashSet::new());
        }
        self.blocking(move |opened| {
            let mut commits = opened.history.commits_within(opened.path(), TIME_LIMIT)?;
            let mut found = HashSet::new();
            walk::each(&mut commits, &selection, |commits, node| {
                let id = commits.id(node)?;
                found.extend(sought.take(&id));
                for picked in picked(commits.data(id)?) {
                    found.extend(sought.take(&picked));
                }
                Ok(match sought.is_empty() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                })
            })?;
            Ok(found)
        })
        .await
    }
}

/// Returns the commits that a message names as cherry-picked.
fn picked(data: &[u8]) -> Vec<Oid> {
    let mut ids = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(PICKED.len()).position(|part| part == PICKED) {
        rest = rest.get(at + PICKED.len()..).unwrap_or_default();
        let digits = rest.get(..DIGITS).and_then(|id| std::str::from_utf8(id).ok());
        ids.extend(digits.and_then(|id| Oid::from_str(id).ok()));
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_repository::TestRepository;

    #[tokio::test]
    async fn arrivals_are_commits_in_range() {
        let sample = TestRepository::with_history();
        let all = sample.ids(&["log", "--format=%H", "--all"]);
        for (revisions, range) in [
            ("main", "main"),
            ("main~9..main", "main~9..main"),
            ("main..main~9", "main..main~9"),
        ] {
            let selection = sample.repository.select(revisions).await.unwrap();
            let found = sample
                .repository
                .introduced_commits(selection, all.iter().copied().collect())
                .await
                .unwrap();
            let selected: HashSet<Oid> = sample.ids(&["log", "--format=%H", range]).into_iter().collect();
            assert_eq!(found, selected, "{revisions}");
        }
        let selection = sample.repository.select("main").await.unwrap();
        let nothing = sample
            .repository
            .introduced_commits(selection, HashSet::new())
            .await
            .unwrap();
        assert!(nothing.is_empty());
    }

    #[test]
    fn cherry_pick_message_names_source_commits() {
        let (one, other) = ("1".repeat(DIGITS), "a".repeat(DIGITS));
        let message = format!(
            "Pick\n\n(cherry picked from commit {one})\n(cherry picked from commit {other})\n(cherry picked from commit abc)\n\
             (cherry picked from commit {}",
            "z".repeat(DIGITS)
        );
        let ids: Vec<String> = picked(message.as_bytes())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(ids, [one, other]);
        assert!(picked(b"(cherry picked from commit ").is_empty());
    }
}
