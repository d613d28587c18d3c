//! Diffs between commits, equal to those of `git diff-tree`.
//!
//! Small diffs without renames are computed in this process ([`direct`]). For other diffs the program is faster
//! than both libraries, because it finds renames in linear time. Clients also compare results with it. Its
//! output is parsed while it runs ([`parse`]), and the run stops at the first limit.

mod changed_paths;
mod direct;
mod parse;
#[cfg(test)]
mod tests;
mod tree_walk;

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::stream::{self, ByteStream};
use super::{Error, Oid, Repository, Result, commit};
pub use changed_paths::ChangedPaths;
use parse::DiffParser;

/// Maximum number of files in a diff; the list ends there.
const MAX_FILES: usize = 1_000;
/// Maximum number of patch lines in a diff.
const MAX_LINES: usize = 50_000;
/// Maximum size of all patches in a diff, in bytes.
const MAX_BYTES: usize = 5_000 * 1024;
/// Patches of this size in bytes or more are omitted; their entries stay.
const MAX_PATCH_BYTES: usize = 100 * 1024;
/// Time limit for one diff.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for computing and sending a diff as text.
const RAW_TIME_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Maximum number of commits in one request for statistics.
const MAX_STATS_COMMITS: usize = 1_000;
/// Maximum output of the program for statistics, in bytes: one line for each changed file.
const MAX_STATS_BYTES: usize = 256 * 1024 * 1024;

/// Options of every diff with text: full IDs, no colors, and no programs configured in the repository.
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

/// Changes between two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// One entry for each file, ordered by path.
    pub entries: Vec<DiffEntry>,
    /// Whether a limit truncated the list.
    pub truncated: bool,
}

/// Changes of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffEntry {
    /// The path before; the path after for an added file.
    pub old_path: String,
    /// The path after; the path before for a deleted file.
    pub new_path: String,
    /// The mode before in octal digits, `0` for an added file.
    pub a_mode: String,
    /// The mode after in octal digits, `0` for a deleted file.
    pub b_mode: String,
    /// Whether the file was added.
    pub new_file: bool,
    /// Whether the path changed.
    pub renamed_file: bool,
    /// Whether the file was deleted.
    pub deleted_file: bool,
    /// The hunks from the first `@@` on. Empty if only the path or the mode changed, and if the patch exceeds
    /// the limit. One line `Binary files ... differ` for a binary file.
    pub diff: String,
    /// Whether the patch was omitted because of its size.
    pub too_large: bool,
    /// Whether the patch was omitted because of the size of all patches together.
    pub collapsed: bool,
}

impl DiffEntry {
    /// Omits the patch because of its size.
    fn omit_large(&mut self) {
        self.diff = String::new();
        self.too_large = true;
    }

    /// Omits the patch because of the total size.
    fn collapse(&mut self) {
        self.diff = String::new();
        self.collapsed = !self.too_large;
    }

    /// Returns the line code of a changed line: the SHA-1 of the path and both line counters. `line` is the
    /// line number on its own side. Returns `None` if the patch does not change the line.
    #[must_use]
    pub fn line_code(&self, line: u32, side: LineSide) -> Option<String> {
        let (old, new) = parse::changed_line(&self.diff, line, side)?;
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(self.new_path.as_bytes());
        let path = hasher.try_finalize().ok()?;
        Some(format!("{path}_{old}_{new}"))
    }
}

/// Numbers of added and removed lines of a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffStats {
    /// Number of added lines.
    pub additions: u64,
    /// Number of removed lines.
    pub deletions: u64,
}

/// Side of a diff that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineSide {
    /// A removed line.
    Old,
    /// An added line.
    New,
}

/// Limits of a diff.
struct DiffLimits {
    files: usize,
    lines: usize,
    bytes: usize,
    patch_bytes: usize,
}

const RESPONSE_LIMITS: DiffLimits = DiffLimits {
    files: MAX_FILES,
    lines: MAX_LINES,
    bytes: MAX_BYTES,
    patch_bytes: MAX_PATCH_BYTES,
};

impl Repository {
    /// Returns the changes of a commit against its first parent, or against the empty tree for a root commit.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the commit does not exist, [`Error::Timeout`].
    pub async fn diff_commit(&self, commit: Oid) -> Result<Diff> {
        let before = self.first_parent_or_nothing(commit).await?;
        self.diff_between(before, commit).await
    }

    /// Returns the changes from one commit or tree to another.
    ///
    /// # Errors
    /// [`Error::Program`] if one of them is neither a commit nor a tree, [`Error::Timeout`].
    pub async fn diff_between(&self, before: Oid, after: Oid) -> Result<Diff> {
        let direct = self.git2(move |repository| direct::diff(repository, before, after, &RESPONSE_LIMITS));
        match direct.await? {
            Some(diff) => Ok(diff),
            None => self.diff(before, after, None, RESPONSE_LIMITS).await,
        }
    }

    async fn diff(&self, before: Oid, after: Oid, only: Option<&str>, limits: DiffLimits) -> Result<Diff> {
        let program = Program::new("diff-tree").flags(&OPTIONS).flag("--end-of-options");
        let program = program.id(before).id(after).memory(MemoryNeed::Files);
        let program = program.time_limit(TIME_LIMIT);
        let mut running = self.start(program).await?;
        let Some(stdout) = running.take_stdout() else {
            return Err(Error::Worker);
        };
        let mut parser = DiffParser::new(stdout, only, limits);
        let diff = running.within(parser.read()).await?;
        if parser.at_end() {
            running.finish().await?;
        }
        Ok(diff)
    }

    /// Streams the changes from one commit or tree to another as text, in the format of `git diff`. Dropping the stream
    /// stops the program.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many transfers are running. The stream ends in an error if the program fails or exceeds
    /// its time limit.
    pub async fn raw_diff(&self, before: Oid, after: Oid) -> Result<ByteStream> {
        let is_text_option = |option: &&str| !["--raw", "-z"].contains(option);
        let flags: Vec<&'static str> = OPTIONS.into_iter().filter(is_text_option).collect();
        let program = Program::new("diff-tree").flags(&flags).flag("--end-of-options");
        let program = program.id(before).id(after).memory(MemoryNeed::Files);
        let running = self.start_transfer(program.time_limit(RAW_TIME_LIMIT)).await?;
        Ok(stream::output(self, running, Bytes::new()))
    }

    /// Returns the numbers of added and removed lines of each commit against its first parent, with one
    /// program for all commits.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if one is not a commit, [`Error::LimitExceeded`] for more than 1,000
    /// commits, [`Error::Timeout`].
    pub async fn stats(&self, commits: &[Oid]) -> Result<Vec<DiffStats>> {
        if commits.len() > MAX_STATS_COMMITS {
            return Err(Error::LimitExceeded("statistics of too many commits at once"));
        }
        let mut missing = commits.to_vec();
        missing.sort_unstable();
        missing.dedup();
        let (mut known, mut counted, missing, opening) = self
            .blocking(move |opened| {
                let history = &opened.history;
                let cached = |id: &Oid| history.caches.stats.get(&(history.opening, *id));
                let known: HashMap<_, _> = missing.iter().filter_map(|id| Some((*id, cached(id)?))).collect();
                missing.retain(|id| !known.contains_key(id));
                let mut counted = HashMap::new();
                let missing =
                    opened.with_git2(|repository| count_directly(repository, missing, &mut counted))?;
                Ok((known, counted, missing, history.opening))
            })
            .await?;
        if !missing.is_empty() {
            let parents = self.parents_of(missing.clone()).await?;
            let mut input = String::new();
            for (commit, parents) in missing.iter().zip(parents) {
                // A second ID on the line replaces the parents of the commit.
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
                .memory(MemoryNeed::Files)
                .output_limit(MAX_STATS_BYTES)
                .time_limit(TIME_LIMIT);
            let output = self.run(program).await?;
            // The output does not contain commits without changes.
            counted.extend(missing.into_iter().map(|commit| (commit, DiffStats::default())));
            counted.extend(parse::numstat(&output.stdout));
        }
        for (commit, stats) in &counted {
            self.shared().caches.stats.insert((opening, *commit), *stats);
        }
        known.extend(counted);
        Ok(commits
            .iter()
            .map(|id| known.get(id).copied().unwrap_or_default())
            .collect())
    }

    /// Returns whether a commit changes a line, so that it can be commented on. An added line has its number
    /// in the new file, a removed line its number in the old file. `path` is the path after the commit.
    ///
    /// # Errors
    /// As [`Self::diff_commit`].
    pub async fn changes_line(&self, commit: Oid, path: &str, line: u32, side: LineSide) -> Result<bool> {
        /// Maximum size in bytes of a patch that is searched for a line.
        const SEARCHED: usize = 16 * 1024 * 1024;
        let limits = DiffLimits {
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

    /// Returns the commit to compare with: the first parent, else the empty tree, which Git knows even if it
    /// is not stored.
    async fn first_parent_or_nothing(&self, commit: Oid) -> Result<Oid> {
        self.git2(move |repository| first_parent_or_nothing(repository, commit))
            .await
    }
}

fn first_parent_or_nothing(repository: &git2::Repository, commit: Oid) -> Result<Oid> {
    match commit::read(repository, commit)?.parents.first() {
        Some(parent) => Ok(*parent),
        None => Ok(Oid::hash_object(git2::ObjectType::Tree, b"")?),
    }
}

/// Adds the statistics that can be counted without the program, and returns the remaining commits. After the
/// first such commit, the program starts anyway and counts the rest too.
fn count_directly(
    repository: &git2::Repository,
    commits: Vec<Oid>,
    counted: &mut HashMap<Oid, DiffStats>,
) -> Result<Vec<Oid>> {
    let mut remaining = commits.into_iter();
    while let Some(commit) = remaining.next() {
        let before = first_parent_or_nothing(repository, commit)?;
        match direct::stats(repository, before, commit)? {
            Some(stats) => drop(counted.insert(commit, stats)),
            None => return Ok(std::iter::once(commit).chain(remaining).collect()),
        }
    }
    Ok(Vec::new())
}
