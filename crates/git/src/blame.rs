//! The last change of each line of a file, from `git blame`, which is much faster than both libraries.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncRead;

use super::line_reader::LineReader;
use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::{Error, Oid, Repository, Result};

/// Time limit for one blame.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Maximum size of a blamed file, in bytes.
const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

/// Consecutive lines with the same last commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlameRange {
    /// The commit.
    pub commit: Oid,
    /// The lines without line ends; bytes that are not UTF-8 are replaced.
    pub lines: Vec<String>,
}

impl Repository {
    /// Returns the lines of a file at a commit, in order, with the commits that last changed them.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the commit has no file at `path`, [`Error::LimitExceeded`] for a file
    /// over 16 MiB, [`Error::Timeout`] after a minute.
    pub async fn blame(&self, commit: Oid, path: &str) -> Result<Arc<Vec<BlameRange>>> {
        if path.starts_with('/') || !self.is_file(commit, path).await? {
            return Err(Error::ObjectNotFound);
        }
        let key = (commit, path.to_owned());
        if let Some(known) = self.shared().caches.blame.get(&key) {
            return Ok(known);
        }
        let program = Program::new("blame")
            .flag("--porcelain")
            .memory(MemoryNeed::Files)
            .id(commit)
            .path(path)
            .time_limit(TIME_LIMIT);
        let mut running = self.start(program).await?;
        let Some(stdout) = running.take_stdout() else {
            return Err(Error::Worker);
        };
        let ranges = running.within(read(stdout)).await?;
        running.finish().await?;
        let ranges = Arc::new(ranges);
        self.shared().caches.blame.insert(key, Arc::clone(&ranges));
        Ok(ranges)
    }
}

/// Parses porcelain output. Each line of the file has a header that starts with the commit ID, optional
/// commit details, and the content after a tab.
async fn read(output: impl AsyncRead + Unpin) -> Result<Vec<BlameRange>> {
    let mut output = LineReader::new(output);
    let mut ranges: Vec<BlameRange> = Vec::new();
    let mut commit = None;
    let mut bytes = 0;
    while let Some(line) = output.line(b'\n', MAX_FILE_BYTES).await? {
        bytes += line.len;
        if bytes > 2 * MAX_FILE_BYTES {
            return Err(Error::LimitExceeded("the file is too large for blame"));
        }
        if let Some(content) = line.text().strip_prefix('\t') {
            let commit = commit.take().ok_or_else(unreadable)?;
            match ranges.last_mut().filter(|range| range.commit == commit) {
                Some(range) => range.lines.push(content.to_owned()),
                None => ranges.push(BlameRange {
                    commit,
                    lines: vec![content.to_owned()],
                }),
            }
        } else if commit.is_none() {
            let text = line.text();
            let id = text.split(' ').next().and_then(|id| Oid::from_str(id).ok());
            commit = Some(id.ok_or_else(unreadable)?);
        }
    }
    Ok(ranges)
}

fn unreadable() -> Error {
    Error::Program {
        command: "blame",
        stderr: "its output could not be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_repository::{PATHS, TestRepository};

    #[tokio::test]
    async fn blame_matches_git() {
        let sample = TestRepository::with_history();
        let mut files = 0;
        for path in PATHS {
            if sample.git(&["ls-tree", "-r", "main", "--", path]).is_empty() {
                let answer = sample.repository.blame(sample.id("main"), path).await;
                assert!(matches!(answer, Err(Error::ObjectNotFound)), "{path}: {answer:?}");
                continue;
            }
            files += 1;
            let ranges = sample.repository.blame(sample.id("main"), path).await.unwrap();
            let blamed = sample.git(&["blame", "-l", "-s", "--root", "main", "--", path]);
            let expected: Vec<_> = blamed
                .lines()
                .map(|line| Oid::from_str(&line[..40]).unwrap())
                .collect();
            let commits = ranges
                .iter()
                .flat_map(|range| std::iter::repeat_n(range.commit, range.lines.len()));
            assert_eq!(commits.collect::<Vec<_>>(), expected, "{path}");
            let lines: String = ranges
                .iter()
                .flat_map(|range| &range.lines)
                .map(|line| format!("{line}\n"))
                .collect();
            assert_eq!(lines, sample.git(&["show", &format!("main:{path}")]), "{path}");
            assert!(ranges.windows(2).all(|pair| pair[0].commit != pair[1].commit));
        }
        assert!(files > 4, "only {files} files to blame");
    }

    #[tokio::test]
    async fn blame_requires_exact_path_of_file() {
        let sample = TestRepository::with_history();
        let main = sample.id("main");
        for path in [
            "src",
            "",
            "/README.md",
            "./README.md",
            "--help",
            "README.*",
            "README.md/",
        ] {
            let answer = sample.repository.blame(main, path).await;
            assert!(matches!(answer, Err(Error::ObjectNotFound)), "{path}: {answer:?}");
        }
    }

    #[tokio::test]
    async fn blame_of_empty_file_has_no_ranges() {
        let sample = TestRepository::empty();
        sample.import(
            b"commit refs/heads/main\ncommitter A <a@example.com> 1 +0000\ndata 1\nx\n\
              M 100644 inline empty\ndata 0\n\nM 100644 inline blank\ndata 2\n\n\n\n",
        );
        let main = sample.id("main");
        assert!(sample.repository.blame(main, "empty").await.unwrap().is_empty());
        let blank = sample.repository.blame(main, "blank").await.unwrap();
        assert_eq!(
            *blank,
            [BlameRange {
                commit: main,
                lines: vec![String::new(), String::new()]
            }]
        );
    }
}
