//! Maintenance of a repository by jobs, and the import of an external repository.
//!
//! All operations may run concurrently with readers and writers, because Git replaces files atomically and
//! preserves new ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::refs::{NameFilter, with_prefix};
use super::{Error, Oid, Repository, Result};

/// Time limit for maintenance.
const TIME_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Time limit for computing the changed paths of new commits. A tree can have the same subtree many times, on each
/// level, so a few small objects can have more paths than can ever be compared.
const CHANGED_PATHS_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Number of loose objects that triggers a repack.
const REPACK_LOOSE_OBJECTS: usize = 1_000;
/// Number of the 256 directories of loose objects that are counted; IDs are spread evenly.
const SAMPLED_DIRECTORIES: u8 = 16;
/// Number of new packs that triggers a repack.
const REPACK_NEW_PACKS: usize = 5;
/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 100;
/// Maximum number of directories that an import reads.
const MAX_ALTERNATES: usize = 100;

/// Extent of a repack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepackExtent {
    /// Combines loose objects and small packs. It is cheap, so it runs after every few pushes.
    Geometric,
    /// Writes a single pack, and drops objects that were unreachable for two weeks. It runs rarely.
    Full,
}

impl Repository {
    /// Adds new commits and their changed paths to the commit-graph. If the changed paths take too long, the commits
    /// are added without them, and queries by path compare the trees of these commits.
    ///
    /// # Errors
    /// [`super::Error::Program`] if another process writes it at the same time.
    pub async fn write_commit_graph(&self) -> Result<()> {
        self.write_commit_graph_within(CHANGED_PATHS_TIME_LIMIT).await
    }

    async fn write_commit_graph_within(&self, limit: Duration) -> Result<()> {
        match self.run(commit_graph_program().time_limit(limit)).await {
            Err(error @ (Error::Timeout | Error::LimitExceeded(_))) => {
                tracing::warn!(%error, "wrote the commit-graph without the changed paths of new commits");
                // The known changed paths of other commits remain.
                let program = commit_graph_program().flag("--max-new-filters=0");
                self.run(program.time_limit(TIME_LIMIT)).await?;
            }
            outcome => drop(outcome?),
        }
        Ok(())
    }

    /// Repacks objects, with reachability bitmaps, and references.
    ///
    /// # Errors
    /// [`super::Error::Program`], [`super::Error::Timeout`].
    pub async fn repack(&self, how: RepackExtent) -> Result<()> {
        let flags: &[&str] = match how {
            RepackExtent::Geometric => &["--geometric=2", "--write-midx"],
            RepackExtent::Full => &["--cruft", "--cruft-expiration=2.weeks.ago"],
        };
        let program = Program::new("repack")
            .flags(&["-d", "-l", "-q", "--write-bitmap-index"])
            .flags(flags)
            .memory(MemoryNeed::Maintenance)
            .writes()
            .in_background();
        self.run(program.time_limit(TIME_LIMIT)).await?;
        if how == RepackExtent::Full {
            let program = Program::new("pack-refs").flag("--all").writes();
            self.run(program.time_limit(TIME_LIMIT)).await?;
        }
        Ok(())
    }

    /// Returns whether enough objects arrived since the last [`Self::repack`] to run another. A repack walks
    /// the whole history for the bitmaps, which is too expensive after every commit.
    ///
    /// # Errors
    /// [`super::Error::RepositoryMissing`], or an I/O error.
    pub async fn needs_repack(&self) -> Result<bool> {
        self.blocking(|opened| {
            let objects = opened.path().join("objects");
            Ok(has_new_packs(&objects.join("pack"))? || has_loose_objects(&objects)?)
        })
        .await
    }

    /// Checks all objects and references and returns the problems, at most 100 lines.
    ///
    /// # Errors
    /// [`super::Error::RepositoryMissing`], [`super::Error::Timeout`].
    pub async fn fsck(&self) -> Result<Vec<String>> {
        /// The exit code is a sum of bits for the problems; 128 means that the program could not start.
        const FOUND: &[i32] = &[
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
            27, 28, 29, 30, 31, 128,
        ];
        let program = Program::new("fsck")
            .flags(&["--full", "--no-dangling", "--no-progress"])
            .memory(MemoryNeed::Maintenance);
        let output = self.run(program.accept(FOUND).time_limit(TIME_LIMIT)).await?;
        if output.code == 0 {
            return Ok(Vec::new());
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        let mut problems: Vec<_> = stdout
            .lines()
            .chain(output.stderr.lines())
            .map(str::to_owned)
            .collect();
        problems.truncate(MAX_PROBLEMS);
        if problems.is_empty() {
            problems.push(format!("git fsck ended with code {}", output.code));
        }
        Ok(problems)
    }

    /// Imports the branches, tags and `HEAD` of another repository on this machine. References of the same
    /// names are replaced.
    ///
    /// `source` is a path given by the operator or another repository of the store, never a path from a
    /// client.
    ///
    /// # Errors
    /// [`super::Error::RepositoryMissing`] if this repository does not exist, [`super::Error::Program`] if
    /// the source is not a repository, [`super::Error::Io`] if `source` does not exist.
    pub async fn import(&self, source: &Path) -> Result<()> {
        let source = tokio::fs::canonicalize(source).await?;
        let program = Program::new("fetch")
            .memory(MemoryNeed::Import)
            .writes()
            .reads(read_by_import(&source))
            .config("protocol.allow", "never")
            .config("protocol.file.allow", "always")
            .flags(&[
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-auto-maintenance",
                "--no-recurse-submodules",
            ])
            .path(&source)
            .path("+refs/heads/*:refs/heads/*")
            .path("+refs/tags/*:refs/tags/*");
        self.run(program.time_limit(TIME_LIMIT)).await?;
        self.git2(move |repository| {
            let other = git2::Repository::open(&source)?;
            let head = other.find_reference("HEAD")?;
            match head.symbolic_target() {
                Ok(Some(branch)) if branch.starts_with("refs/heads/") => repository.set_head(branch)?,
                _ => {}
            }
            // `git` does not sync the directories.
            Ok(rustix::fs::syncfs(File::open(repository.path())?).map_err(io::Error::from)?)
        })
        .await
    }
}

/// Checks that a path names a repository that [`Repository::import`] can read: a bare one, or a working copy.
///
/// # Errors
/// [`super::Error::Io`] if the path cannot be read, [`super::Error::RepositoryMissing`] if it is not a repository.
pub async fn check_import_source(source: &Path) -> Result<()> {
    let source = tokio::fs::canonicalize(source).await?;
    let opened = tokio::task::spawn_blocking(move || git2::Repository::open(source).map(drop));
    let opened = opened.await.map_err(|_| Error::Worker)?;
    opened.map_err(|_| Error::RepositoryMissing)
}

/// A branch or tag that [`Repository::import`] creates or moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedReference {
    /// The full name, such as `refs/heads/main`.
    pub name: String,
    /// The target before the import; `None` without such a reference.
    pub current: Option<Oid>,
    /// The target after the import.
    pub target: Oid,
    /// Whether the target after the import is a descendant of the current one.
    pub is_fast_forward: bool,
}

/// Returns the branches and tags that an import of the repository at `source` creates or moves. `current` has the
/// targets before the import, by full name.
///
/// # Errors
/// [`super::Error::Io`] if the path cannot be read, and failures of the repository.
pub async fn imported_references(
    source: &Path,
    current: BTreeMap<String, Oid>,
) -> Result<Vec<ImportedReference>> {
    let source = tokio::fs::canonicalize(source).await?;
    let compare = move || -> Result<Vec<ImportedReference>> {
        let repository = git2::Repository::open(source)?;
        let mut found = Vec::new();
        for prefix in ["refs/heads/", "refs/tags/"] {
            for (name, target) in with_prefix(&repository, prefix, &NameFilter::new(None))? {
                let name = format!("{prefix}{name}");
                let current = current.get(&name).copied();
                if current == Some(target) {
                    continue;
                }
                // A repository without the current target has none of its descendants.
                let is_fast_forward = current
                    .is_some_and(|current| repository.graph_descendant_of(target, current).unwrap_or(false));
                found.push(ImportedReference {
                    name,
                    current,
                    target,
                    is_fast_forward,
                });
            }
        }
        Ok(found)
    };
    tokio::task::spawn_blocking(compare)
        .await
        .map_err(|_| Error::Worker)?
}

/// Returns the program that writes the commit-graph.
fn commit_graph_program() -> Program {
    let flags = [
        "write",
        "--split",
        "--changed-paths",
        "--reachable",
        "--no-progress",
    ];
    Program::new("commit-graph")
        // The first version of the filters cannot handle paths that are not ASCII.
        .config("commitGraph.changedPathsVersion", "2")
        .flags(&flags)
        .memory(MemoryNeed::Maintenance)
        .writes()
        .in_background()
}

/// Returns the directories that an import of a repository reads: the repository may be a working copy, and borrow
/// objects from others.
fn read_by_import(source: &Path) -> Vec<PathBuf> {
    let mut directories = vec![source.to_owned()];
    if let Ok(repository) = git2::Repository::open(source) {
        directories.extend([repository.path(), repository.commondir()].map(Path::to_owned));
        let mut pending = vec![repository.commondir().join("objects")];
        while let Some(objects) = pending.pop() {
            let alternates = std::fs::read_to_string(objects.join("info/alternates"));
            for line in alternates.unwrap_or_default().lines() {
                let borrowed = objects.join(line);
                if directories.len() < MAX_ALTERNATES && !directories.contains(&borrowed) {
                    directories.push(borrowed.clone());
                    pending.push(borrowed);
                }
            }
        }
    }
    directories
}

/// Returns whether there are several packs newer than the multi-pack index, or several packs and no such
/// index.
fn has_new_packs(directory: &Path) -> io::Result<bool> {
    let indexed = match directory.join("multi-pack-index").metadata() {
        Ok(metadata) => Some(metadata.modified()?),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut new = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry
            .path()
            .extension()
            .is_none_or(|extension| extension != "pack")
        {
            continue;
        }
        match (indexed, entry.metadata()) {
            (None, _) => return Ok(true),
            (Some(indexed), Ok(metadata)) => new += usize::from(metadata.modified()? > indexed),
            // Concurrent maintenance removed it.
            (_, Err(_)) => {}
        }
    }
    Ok(new >= REPACK_NEW_PACKS)
}

/// Estimates from a sample whether there are many loose objects.
fn has_loose_objects(objects: &Path) -> io::Result<bool> {
    let mut counted = 0;
    for number in 0..SAMPLED_DIRECTORIES {
        match std::fs::read_dir(objects.join(format!("{number:02x}"))) {
            Ok(entries) => counted += entries.count(),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(counted * 256 / usize::from(SAMPLED_DIRECTORIES) >= REPACK_LOOSE_OBJECTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_repository::TestRepository;
    use crate::testing::{self, Fixture};
    use crate::{CommitSelection, RepositoryId};

    #[tokio::test]
    async fn maintenance_does_not_change_results() {
        let sample = TestRepository::with_history();
        let references = sample.git(&["for-each-ref"]);
        let selection = CommitSelection {
            tips: vec![sample.id("main")],
            path: Some("src".to_owned()),
            ..CommitSelection::default()
        };
        let before = sample
            .repository
            .count_commits(selection.clone(), usize::MAX)
            .await
            .unwrap();
        for (round, how) in [
            RepackExtent::Geometric,
            RepackExtent::Full,
            RepackExtent::Geometric,
        ]
        .into_iter()
        .enumerate()
        {
            sample.import(
                b"commit refs/heads/extra\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\n\
                  M 100644 inline file\ndata 1\nx\n\n",
            );
            sample.git(&["update-ref", "-d", "refs/heads/extra"]);
            sample.repository.write_commit_graph().await.unwrap();
            sample.repository.repack(how).await.unwrap();
            assert_eq!(sample.git(&["for-each-ref"]), references);
            assert_eq!(sample.repository.fsck().await.unwrap(), [""; 0]);
            // A new cap in each round, so that the result is not cached.
            let cap = usize::MAX - 1 - round;
            assert_eq!(
                sample
                    .repository
                    .count_commits(selection.clone(), cap)
                    .await
                    .unwrap(),
                before
            );
        }
        assert!(
            sample
                .repository
                .path()
                .join("objects/info/commit-graphs/commit-graph-chain")
                .is_file()
        );
    }

    #[tokio::test]
    async fn commit_graph_is_written_without_changed_paths_that_take_too_long() {
        let sample = TestRepository::with_history();
        let mut tree = sample.git_stdin(&["mktree"], b"");
        for _ in 0..10 {
            let entry = |number: usize| format!("040000 tree {}\t{number:02}\n", tree.trim());
            let entries: String = (0..30).map(entry).collect();
            tree = sample.git_stdin(&["mktree"], entries.as_bytes());
        }
        let commit = sample.git(&["commit-tree", "-m", "x", "-p", "main", tree.trim()]);
        sample.git(&["update-ref", "refs/heads/main", commit.trim()]);
        let started = std::time::Instant::now();
        let limit = Duration::from_secs(3);
        sample.repository.write_commit_graph_within(limit).await.unwrap();
        assert!(started.elapsed() < CHANGED_PATHS_TIME_LIMIT);
        sample.git(&["commit-graph", "verify"]);
        let directory = sample.repository.path().join("objects/info/commit-graphs");
        assert!(directory.join("commit-graph-chain").is_file());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn maintenance_does_not_disturb_readers_or_writers() {
        let fixture = Fixture::new("main").await;
        let repository = fixture.repository.clone();
        let first = testing::commit(&repository, "main", &[("file", "0")]).await;
        let upkeep = {
            let repository = repository.clone();
            tokio::spawn(async move {
                for how in [RepackExtent::Full, RepackExtent::Geometric, RepackExtent::Full] {
                    repository.write_commit_graph().await.unwrap();
                    repository.repack(how).await.unwrap();
                }
            })
        };
        let mut written = 1;
        while written < 10 || !upkeep.is_finished() {
            let tip = testing::commit(&repository, "main", &[("file", &written.to_string())]).await;
            written += 1;
            assert_eq!(repository.last_commit_of(tip, "file").await.unwrap(), Some(tip));
            assert!(repository.is_ancestor(first, tip).await.unwrap());
            let selection = CommitSelection {
                tips: vec![tip],
                ..CommitSelection::default()
            };
            assert_eq!(
                repository.count_commits(selection, usize::MAX).await.unwrap(),
                written
            );
        }
        upkeep.await.unwrap();
        assert_eq!(repository.fsck().await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn repository_is_scattered_until_it_is_repacked() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        testing::commit(repository, "main", &[("file", "0")]).await;
        assert!(!repository.needs_repack().await.unwrap(), "a few loose objects");
        fixture.git(&["repack", "-d", "-q"]);
        assert!(
            repository.needs_repack().await.unwrap(),
            "a pack that is not indexed"
        );
        repository.repack(RepackExtent::Geometric).await.unwrap();
        assert!(
            !repository.needs_repack().await.unwrap(),
            "everything is gathered"
        );
        testing::commit(repository, "main", &[("file", "1")]).await;
        assert!(!repository.needs_repack().await.unwrap(), "a commit more");
        let opened = git2::Repository::open_bare(repository.path()).unwrap();
        for number in 0..2 * REPACK_LOOSE_OBJECTS {
            opened.blob(number.to_string().as_bytes()).unwrap();
        }
        assert!(repository.needs_repack().await.unwrap(), "many loose objects");
    }

    #[tokio::test]
    async fn import_copies_branches_tags_and_head() {
        let sample = TestRepository::with_history();
        sample.git(&["symbolic-ref", "HEAD", "refs/heads/side-33"]);
        sample.git(&["update-ref", "refs/keep/hidden", &sample.id("main").to_string()]);
        let other = sample.store.repository(&RepositoryId::of_project(2));
        let answer = other.import(&sample.repository.path()).await;
        assert!(matches!(answer, Err(Error::RepositoryMissing)), "{answer:?}");
        git2::Repository::init_bare(other.path()).unwrap();
        other.import(&sample.repository.path()).await.unwrap();
        let list = [
            "for-each-ref",
            "--format=%(refname) %(objectname)",
            "refs/heads",
            "refs/tags",
        ];
        let path = other.path();
        let imported = git2::Repository::open_bare(&path).unwrap();
        assert_eq!(
            imported
                .find_reference("HEAD")
                .unwrap()
                .symbolic_target()
                .unwrap(),
            Some("refs/heads/side-33")
        );
        for line in sample.git(&list).lines() {
            let (name, id) = line.split_once(' ').unwrap();
            assert_eq!(imported.refname_to_id(name).unwrap().to_string(), id);
        }
        assert!(imported.find_reference("refs/keep/hidden").is_err());
        assert_eq!(other.fsck().await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn fsck_reports_missing_object() {
        let sample = TestRepository::with_history();
        let absent = "1234567890123456789012345678901234567890";
        std::fs::write(
            sample.repository.path().join("refs/heads/broken"),
            format!("{absent}\n"),
        )
        .unwrap();
        let problems = sample.repository.fsck().await.unwrap();
        assert!(
            problems.iter().any(|problem| problem.contains(absent)),
            "{problems:?}"
        );
    }
}
