//! Authors of the commits of a history.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncRead;

use super::line_reader::LineReader;
use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::{Error, Oid, Repository, Result};

/// Time limit for counting.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Maximum number of contributors, which bounds the memory of the count.
const MAX_CONTRIBUTORS: usize = 100_000;
/// Maximum length of a parsed line, in bytes.
const MAX_LINE_BYTES: usize = 4 * 1024;

/// An author, identified by name and email address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contributor {
    /// The author's name.
    pub name: String,
    /// The author's email address.
    pub email: String,
    /// Number of commits without merges.
    pub commits: u64,
    /// Number of added lines, if requested.
    pub additions: u64,
    /// Number of removed lines, if requested.
    pub deletions: u64,
}

/// Sort key of contributors, ascending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContributorOrder {
    /// By name, then email address.
    Name,
    /// By email address, then name.
    Email,
    /// By number of commits, then name.
    #[default]
    Commits,
}

impl Repository {
    /// Returns the authors of a commit and all its ancestors. Counting `lines` computes every diff of the
    /// history, which takes minutes for a large one.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if `tip` is not a commit, [`Error::Timeout`] after two minutes.
    pub async fn contributors(
        &self,
        tip: Oid,
        lines: bool,
        order: ContributorOrder,
    ) -> Result<Vec<Contributor>> {
        self.is_file(tip, "").await?;
        let cache = &self.shared().caches.contributors;
        let known = cache.get(&(tip, lines));
        let contributors = match known {
            Some(known) => known,
            None => {
                let counted = Arc::new(self.count_contributors(tip, lines).await?);
                cache.insert((tip, lines), Arc::clone(&counted));
                counted
            }
        };
        let mut sorted = contributors.to_vec();
        match order {
            ContributorOrder::Name => sorted.sort_by(|a, b| (&a.name, &a.email).cmp(&(&b.name, &b.email))),
            ContributorOrder::Email => sorted.sort_by(|a, b| (&a.email, &a.name).cmp(&(&b.email, &b.name))),
            ContributorOrder::Commits => {
                sorted.sort_by(|a, b| (a.commits, &a.name).cmp(&(b.commits, &b.name)))
            }
        }
        Ok(sorted)
    }

    async fn count_contributors(&self, tip: Oid, lines: bool) -> Result<Vec<Contributor>> {
        // A control character separates commit lines from file lines.
        let program =
            Program::new("log").flags(&["--no-merges", "--format=tformat:%x01%an%x02%ae", "--no-color"]);
        let program = if lines {
            program.flags(&["--numstat", "--find-renames", "--no-ext-diff", "--no-textconv"])
        } else {
            program
        };
        let program = program.id(tip).memory(MemoryNeed::Files).time_limit(TIME_LIMIT);
        let mut running = self.start(program).await?;
        let Some(stdout) = running.take_stdout() else {
            return Err(Error::Worker);
        };
        let contributors = running.within(read(stdout)).await?;
        running.finish().await?;
        Ok(contributors)
    }
}

async fn read(output: impl AsyncRead + Unpin) -> Result<Vec<Contributor>> {
    let mut output = LineReader::new(output);
    let mut positions: HashMap<(String, String), usize> = HashMap::new();
    let mut contributors: Vec<Contributor> = Vec::new();
    let mut current = 0;
    while let Some(line) = output.line(b'\n', MAX_LINE_BYTES).await? {
        let text = line.text();
        if let Some((name, email)) = text
            .strip_prefix('\u{1}')
            .and_then(|author| author.split_once('\u{2}'))
        {
            let author = (name.to_owned(), email.to_owned());
            current = *positions.entry(author).or_insert(contributors.len());
            if current == contributors.len() {
                if current >= MAX_CONTRIBUTORS {
                    return Err(Error::LimitExceeded("the history has too many contributors"));
                }
                let (name, email) = (name.to_owned(), email.to_owned());
                contributors.push(Contributor {
                    name,
                    email,
                    ..Contributor::default()
                });
            }
            if let Some(contributor) = contributors.get_mut(current) {
                contributor.commits += 1;
            }
        } else if let Some(contributor) = contributors.get_mut(current) {
            let mut numbers = text.split('\t').map(|number| number.parse::<u64>().unwrap_or(0));
            contributor.additions += numbers.next().unwrap_or(0);
            contributor.deletions += numbers.next().unwrap_or(0);
        }
    }
    Ok(contributors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_repository::TestRepository;

    #[tokio::test]
    async fn contributor_commits_match_git_shortlog() {
        let sample = TestRepository::with_history();
        let main = sample.id("main");
        for order in [ContributorOrder::Name, ContributorOrder::Email] {
            let contributors = sample.repository.contributors(main, false, order).await.unwrap();
            let ours: Vec<_> = contributors
                .iter()
                .map(|one| format!("{}\t{} <{}>", one.commits, one.name, one.email))
                .collect();
            let theirs = sample.git(&["shortlog", "-s", "-e", "--no-merges", "main"]);
            assert_eq!(ours, theirs.lines().map(str::trim).collect::<Vec<_>>());
        }
        let by_commits = sample
            .repository
            .contributors(main, false, ContributorOrder::Commits)
            .await
            .unwrap();
        assert!(by_commits.is_sorted_by_key(|one| one.commits) && by_commits.len() == 2);
    }

    #[tokio::test]
    async fn contributor_lines_match_git_numstat() {
        let sample = TestRepository::with_history();
        let contributors = sample
            .repository
            .contributors(sample.id("main"), true, ContributorOrder::Name)
            .await
            .unwrap();
        for contributor in contributors {
            let author = format!("--author=<{}>", contributor.email);
            let numstat = sample.git(&["log", "--no-merges", "--numstat", "--format=", &author, "main"]);
            let column = |at: usize| -> u64 {
                let numbers = numstat
                    .lines()
                    .filter_map(|line| line.split('\t').nth(at)?.parse::<u64>().ok());
                numbers.sum()
            };
            assert_eq!(
                (contributor.additions, contributor.deletions),
                (column(0), column(1))
            );
        }
    }
}
