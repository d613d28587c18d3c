//! Differences between commits, as `git diff-tree` finds them.
//!
//! Small differences without renames are found in this process ([`direct`]). For the rest the program is faster
//! than either library: it finds renames in linear time, and its answer is the one people compare with. Its output
//! is parsed while it runs ([`parse`]) and the run ends where a limit is met.

mod changed_paths;
mod direct;
mod parse;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::error::absent;
use super::process::Program;
use super::{Error, Oid, Repository, Result};
pub use changed_paths::ChangedPaths;
use parse::Parser;

/// At most this many files are in one answer; the list ends there.
const FILES: usize = 1_000;
/// At most this many lines of patches are in one answer.
const LINES: usize = 50_000;
/// At most this many bytes of patches are in one answer.
const BYTES: usize = FILES * 5 * 1024;
/// A single patch of this many bytes or more is left out, its entry stays.
const PATCH_BYTES: usize = 100 * 1024;
/// How long a diff may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// How many commits may be asked for their statistics at once.
const STATS_AT_ONCE: usize = 1_000;
/// How much the program may print about them, in bytes: a line for each changed file.
const STATS_BYTES: usize = 256 * 1024 * 1024;

/// The options of every diff with text: full ids, no colours, no programs of the repository's choosing.
const OPTIONS: [&str; 13] = [
    "-r",
    "--raw",
    "--patch",
    "-z",
    "--full-index",
    "--find-renames=30%",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--indent-heuristic",
    "--no-relative",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

/// What changed between two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// One entry per file, by path.
    pub entries: Vec<DiffEntry>,
    /// Whether a limit cut the list short.
    pub truncated: bool,
}

/// What changed in one file (specification 2.3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffEntry {
    /// The path before; that after, for an added file.
    pub old_path: String,
    /// The path after; that before, for a deleted file.
    pub new_path: String,
    /// The mode before in octal digits, `0` for an added file.
    pub a_mode: String,
    /// The mode after in octal digits, `0` for a deleted file.
    pub b_mode: String,
    /// The file was added.
    pub new_file: bool,
    /// The file has another path than before.
    pub renamed_file: bool,
    /// The file was deleted.
    pub deleted_file: bool,
    /// The hunks from the first `@@` on. Empty for a change of path or mode alone and for a patch over the
    /// limit; one `Binary files ... differ` line for a file that is not text.
    pub diff: String,
    /// Whether the patch was left out because of its size.
    pub too_large: bool,
}

impl DiffEntry {
    /// Leaves the patch out, because of its size or that of the whole.
    fn leave_out(&mut self) {
        self.diff = String::new();
        self.too_large = true;
    }

    /// What a changed line is known by: the SHA-1 of the path, and where the counters of both sides stand at it.
    /// `line` is its number on its own side; none when the patch does not change it.
    #[must_use]
    pub fn line_code(&self, line: u32, side: LineSide) -> Option<String> {
        let (old, new) = parse::changed_line(&self.diff, line, side)?;
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(self.new_path.as_bytes());
        let path = hasher.try_finalize().ok()?;
        Some(format!("{path}_{old}_{new}"))
    }
}

/// How many lines a commit adds and takes away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Lines added.
    pub additions: u64,
    /// Lines taken away.
    pub deletions: u64,
}

/// The side of a diff a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineSide {
    /// A line that was taken away.
    Old,
    /// A line that was added.
    New,
}

/// Where a diff stops.
struct Limits {
    files: usize,
    lines: usize,
    bytes: usize,
    patch_bytes: usize,
}

const ANSWER_LIMITS: Limits = Limits {
    files: FILES,
    lines: LINES,
    bytes: BYTES,
    patch_bytes: PATCH_BYTES,
};

impl Repository {
    /// What a commit changed against its first parent, or against nothing when it has none.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when there is no such commit, [`Error::Timeout`].
    pub async fn diff_commit(&self, commit: Oid) -> Result<Diff> {
        let before = self.first_parent_or_nothing(commit).await?;
        self.diff_between(before, commit).await
    }

    /// What changed from one commit or tree to another.
    ///
    /// # Errors
    /// [`Error::Program`] when one of the two is neither commit nor tree, [`Error::Timeout`].
    pub async fn diff_between(&self, before: Oid, after: Oid) -> Result<Diff> {
        let direct = self.git2(move |repository| direct::diff(repository, before, after, &ANSWER_LIMITS));
        match direct.await? {
            Some(diff) => Ok(diff),
            None => self.diff(before, after, None, ANSWER_LIMITS).await,
        }
    }

    async fn diff(&self, before: Oid, after: Oid, only: Option<&str>, limits: Limits) -> Result<Diff> {
        let program = Program::new("diff-tree").flags(&OPTIONS).flag("--end-of-options");
        let program = program.id(before).id(after).time_limit(TIME_LIMIT);
        let mut running = self.start(program).await?;
        let Some(stdout) = running.take_stdout() else {
            return Err(Error::Worker);
        };
        let mut parser = Parser::new(stdout, only, limits);
        let diff = running.within(parser.read()).await?;
        if parser.at_end() {
            running.finish().await?;
        }
        Ok(diff)
    }

    /// The lines each commit added and took away against its first parent; one program for all of them.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when one is no commit, [`Error::LimitExceeded`] for more than a thousand,
    /// [`Error::Timeout`].
    pub async fn stats(&self, commits: &[Oid]) -> Result<Vec<Stats>> {
        if commits.len() > STATS_AT_ONCE {
            return Err(Error::LimitExceeded("statistics of too many commits at once"));
        }
        let mut missing = commits.to_vec();
        missing.sort_unstable();
        missing.dedup();
        let (known, missing) = self
            .blocking(move |opened| {
                let known = opened.history.stats.clone();
                missing.retain(|id| !known.contains_key(id));
                let missing = opened.with_git2(|repository| counted(repository, missing, &known))?;
                Ok((known, missing))
            })
            .await?;
        if !missing.is_empty() {
            let parents = self.parents_of(missing.clone()).await?;
            let mut input = String::new();
            for (commit, parents) in missing.iter().zip(parents) {
                // A second id on the line takes the place of the commit's own parents.
                match parents.first() {
                    Some(parent) => input.push_str(&format!("{commit} {parent}\n")),
                    None => input.push_str(&format!("{commit}\n")),
                }
            }
            let flags = [
                "--stdin",
                "-r",
                "--root",
                "-z",
                "--numstat",
                "--find-renames",
                "--no-ext-diff",
                "--no-textconv",
            ];
            let program = Program::new("diff-tree")
                .flags(&flags)
                .input(input.into_bytes())
                .output_limit(STATS_BYTES)
                .time_limit(TIME_LIMIT);
            let output = self.run(program).await?;
            for (commit, stats) in parse::numstat(&output.stdout) {
                known.insert(commit, stats);
            }
            // A commit that changes nothing is not even named.
            for commit in missing {
                if !known.contains_key(&commit) {
                    known.insert(commit, Stats::default());
                }
            }
        }
        Ok(commits
            .iter()
            .map(|id| known.get(id).unwrap_or_default())
            .collect())
    }

    /// Whether a commit changes a line, so that it can be commented on: an added line has its number in the new file, a
    /// removed one that in the old file. `path` is the path after the commit.
    ///
    /// # Errors
    /// As [`Self::diff_commit`].
    pub async fn changes_line(&self, commit: Oid, path: &str, line: u32, side: LineSide) -> Result<bool> {
        /// A patch that is searched for a line may be this large, in bytes.
        const SEARCHED: usize = 16 * 1024 * 1024;
        let limits = Limits {
            files: usize::MAX,
            lines: usize::MAX,
            bytes: usize::MAX,
            patch_bytes: SEARCHED,
        };
        let before = self.first_parent_or_nothing(commit).await?;
        let diff = self.diff(before, commit, Some(path), limits).await?;
        Ok(diff
            .entries
            .iter()
            .any(|entry| parse::changed_line(&entry.diff, line, side).is_some()))
    }

    /// What a commit is compared with: its first parent, else the empty tree, which Git knows without having it.
    async fn first_parent_or_nothing(&self, commit: Oid) -> Result<Oid> {
        self.git2(move |repository| first_parent_or_nothing(repository, commit))
            .await
    }
}

fn first_parent_or_nothing(repository: &git2::Repository, commit: Oid) -> Result<Oid> {
    let commit = repository.find_commit(commit).map_err(absent)?;
    match commit.parent_ids().next() {
        Some(parent) => Ok(parent),
        None => Ok(Oid::hash_object(git2::ObjectType::Tree, b"")?),
    }
}

/// Adds the statistics that are counted without the program, and answers the commits that are left. When one is
/// not, the program is started anyway, and may as well count the rest.
fn counted(
    repository: &git2::Repository,
    commits: Vec<Oid>,
    known: &moka::sync::Cache<Oid, Stats>,
) -> Result<Vec<Oid>> {
    let mut left = commits.into_iter();
    while let Some(commit) = left.next() {
        let before = first_parent_or_nothing(repository, commit)?;
        match direct::stats(repository, before, commit)? {
            Some(stats) => known.insert(commit, stats),
            None => return Ok(std::iter::once(commit).chain(left).collect()),
        }
    }
    Ok(Vec::new())
}
