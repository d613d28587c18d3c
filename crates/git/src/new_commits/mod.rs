//! Commits, files and blobs that a ref update adds to a repository, for rules about them.
//!
//! A commit is new if no ref that clients change leads to it. So the commits of a merge request from a fork are new until they
//! are merged, although `refs/merge-requests` leads to them.
//!
//! The objects of a push are in the quarantine of its program until the push is accepted. Only its hook can read them, within
//! the memory of the push (`transport::decision`). So the hook runs the programs of a push, and this server reads their output
//! from files. The objects of other updates are stored already, and programs of this server read them.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::transport::PushInspector;
use super::{Commit, Error, Oid, Repository, Result, ref_name};

/// Maximum number of new commits that are listed.
pub const MAX_NEW_COMMITS: usize = 10_000;
/// The same number plus 1, as an argument of Git.
pub(super) const COMMIT_LIMIT_ARGUMENT: &str = "--max-count=10001";
/// Maximum size of the output of a program in bytes.
pub(super) const MAX_OUTPUT_BYTES: u64 = 32 << 20;

/// Error for more commits than [`MAX_NEW_COMMITS`].
const TOO_MANY: Error = Error::LimitExceeded("there are more than 10,000 new commits");
/// Error for output beyond a limit.
pub(super) const TOO_LARGE: Error =
    Error::LimitExceeded("the new commits are too large, or take too long to read");

/// A commit that a ref update adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommit {
    /// The commit.
    pub commit: Commit,
    /// Whether the commit has a signature. The signature is not verified.
    pub is_signed: bool,
}

/// A file that a new commit adds or changes, compared with all parents of the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// The path, with invalid UTF-8 replaced.
    pub path: String,
    /// The content; the commit of a submodule.
    pub id: Oid,
    /// Whether no parent of the commit has a file at the path.
    pub is_added: bool,
}

/// The kinds of output that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// IDs of the new commits.
    Ids,
    /// Content of the new commits.
    Commits,
    /// Files that the new commits add and change.
    Files,
    /// Sizes of the new blobs.
    Sizes,
    /// Files that differ between two commits.
    Changes,
}

impl Listing {
    /// Returns the word that requests the output from the hook, which is also the name of the file.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Commits => "commits",
            Self::Files => "files",
            Self::Sizes => "sizes",
            Self::Changes => "changes",
        }
    }
}

/// What a ref update adds to a repository.
#[derive(Clone)]
pub struct NewObjects {
    repository: Repository,
    source: Source,
}

#[derive(Clone)]
enum Source {
    Pushed(PushInspector),
    /// Input of `git rev-list` with the new targets of refs.
    Stored(Arc<str>),
}

impl NewObjects {
    /// Returns the objects that the push of a waiting hook adds.
    pub(super) fn pushed(repository: Repository, inspector: PushInspector) -> Self {
        let source = Source::Pushed(inspector);
        Self { repository, source }
    }

    /// Returns the objects that an update of refs to these targets adds. The objects are stored already.
    #[must_use]
    pub fn stored(repository: Repository, targets: &[Oid]) -> Self {
        let source = Source::Stored(revisions(targets).into());
        Self { repository, source }
    }

    /// Lists the new commits. The other methods need the list.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if there are more than [`MAX_NEW_COMMITS`].
    pub async fn list(&self) -> Result<NewCommitList> {
        let output = match &self.source {
            Source::Pushed(inspector) => Output::File(inspector.list(Listing::Ids).await?),
            Source::Stored(revisions) => {
                let program = list_program().input(revisions.as_bytes().to_vec());
                Output::Bytes(self.repository.run(program).await?.stdout)
            }
        };
        let ids = read(&self.repository, output, |mut reader| {
            let mut ids = String::new();
            reader.read_to_string(&mut ids)?;
            Ok(ids)
        });
        let ids = ids.await?;
        if ids.lines().count() > MAX_NEW_COMMITS {
            return Err(TOO_MANY);
        }
        Ok(NewCommitList {
            objects: self.clone(),
            ids: ids.into(),
        })
    }
}

impl NewObjects {
    /// Returns the paths of the files that differ between a stored commit and one that is new or stored. A renamed file is listed
    /// with both paths.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if more than `limit` files differ, or if the comparison is too large.
    pub async fn changed_paths(&self, old: Oid, new: Oid, limit: usize) -> Result<Vec<String>> {
        let output = match &self.source {
            Source::Pushed(inspector) => Output::File(inspector.list_changes(old, new).await?),
            Source::Stored(_) => {
                let program = limited(changes_program().input(compared(old, new).into_bytes()));
                Output::Bytes(self.repository.run(program).await?.stdout)
            }
        };
        read(&self.repository, output, move |reader| {
            parse::paths(reader, limit)
        })
        .await
    }
}

/// The list of new commits.
pub struct NewCommitList {
    objects: NewObjects,
    /// One ID per line.
    ids: Arc<str>,
}

impl NewCommitList {
    /// Returns whether there are no new commits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Calls `visit` for each new commit until it breaks, and returns its value. `visit` can block.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] for commits that are too large, or take too long to read.
    pub async fn commits<T: Send + 'static>(
        &self,
        visit: impl FnMut(NewCommit) -> ControlFlow<T> + Send + 'static,
    ) -> Result<Option<T>> {
        if self.is_empty() {
            return Ok(None);
        }
        let program = || {
            Program::new("cat-file")
                .flag("--batch")
                .input(self.ids.as_bytes().to_vec())
        };
        let output = self.output(Listing::Commits, program).await?;
        read(&self.objects.repository, output, |reader| {
            parse::commits(reader, visit)
        })
        .await
    }

    /// Calls `visit` for each file that a new commit adds or changes until it breaks, and returns its value. `visit` can block.
    ///
    /// # Errors
    /// As [`Self::commits`].
    pub async fn files<T: Send + 'static>(
        &self,
        visit: impl FnMut(NewFile) -> ControlFlow<T> + Send + 'static,
    ) -> Result<Option<T>> {
        if self.is_empty() {
            return Ok(None);
        }
        let program = || files_program().input(self.ids.as_bytes().to_vec());
        let output = self.output(Listing::Files, program).await?;
        read(&self.objects.repository, output, |reader| {
            parse::files(reader, visit)
        })
        .await
    }

    /// Returns the new blobs that are larger than `bytes`, including blobs that are no files of commits.
    ///
    /// # Errors
    /// As [`Self::commits`].
    pub async fn blobs_above(&self, bytes: u64) -> Result<HashSet<Oid>> {
        let output = match &self.objects.source {
            Source::Pushed(inspector) => Output::File(inspector.list(Listing::Sizes).await?),
            Source::Stored(revisions) => {
                let blobs = blobs_program().input(revisions.as_bytes().to_vec());
                let blobs = self.objects.repository.run(blobs).await?.stdout;
                Output::Bytes(
                    self.objects
                        .repository
                        .run(sizes_program().input(blobs))
                        .await?
                        .stdout,
                )
            }
        };
        read(&self.objects.repository, output, move |reader| {
            parse::blobs_above(reader, bytes)
        })
        .await
    }

    async fn output(&self, listing: Listing, program: impl FnOnce() -> Program) -> Result<Output> {
        match &self.objects.source {
            Source::Pushed(inspector) => Ok(Output::File(inspector.list(listing).await?)),
            Source::Stored(_) => {
                let program = limited(program());
                Ok(Output::Bytes(self.objects.repository.run(program).await?.stdout))
            }
        }
    }
}

/// The output of a program.
enum Output {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Reads output on the blocking pool.
async fn read<T: Send + 'static>(
    repository: &Repository,
    output: Output,
    work: impl FnOnce(Box<dyn BufRead>) -> Result<T> + Send + 'static,
) -> Result<T> {
    repository
        .blocking(move |_| match output {
            Output::Bytes(bytes) => work(Box::new(Cursor::new(bytes))),
            // The limit of the program is the same, so this one only applies if the program has no limits.
            Output::File(path) => work(Box::new(BufReader::new(File::open(path)?.take(MAX_OUTPUT_BYTES)))),
        })
        .await
}

/// Returns the input of `git rev-list`, which selects the commits or objects that no ref of clients leads to.
pub(super) fn revisions(targets: &[Oid]) -> String {
    let mut input = String::new();
    for target in targets {
        // Writing to a string cannot fail.
        let _ = writeln!(input, "{target}");
    }
    input.push_str("--not\n");
    for namespace in ref_name::hidden_from_pushes() {
        let _ = writeln!(input, "--exclude={namespace}/*");
    }
    input.push_str("--all\n");
    input
}

/// Returns the input of `git diff-tree`, which compares a commit with another one as if that were its parent.
pub(super) fn compared(old: Oid, new: Oid) -> String {
    format!("{new} {old}\n")
}

fn limited(program: Program) -> Program {
    program
        .memory(MemoryNeed::Files)
        .output_limit(usize::try_from(MAX_OUTPUT_BYTES).unwrap_or(usize::MAX))
}

fn list_program() -> Program {
    limited(Program::new("rev-list").flags(&[COMMIT_LIMIT_ARGUMENT, "--stdin"]))
}

fn files_program() -> Program {
    Program::new("diff-tree").flags(&["--stdin", "--root", "-r", "-c", "-z", "--no-renames"])
}

fn changes_program() -> Program {
    Program::new("diff-tree").flags(&["--stdin", "-r", "-z", "--no-renames"])
}

fn blobs_program() -> Program {
    limited(Program::new("rev-list").flags(&[
        "--objects",
        "--no-object-names",
        "--filter=object:type=blob",
        "--stdin",
    ]))
}

fn sizes_program() -> Program {
    limited(Program::new("cat-file").flag("--batch-check=%(objectname) %(objecttype) %(objectsize)"))
}
