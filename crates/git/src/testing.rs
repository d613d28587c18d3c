//! Real repositories for the tests of this module, filled and checked by the `git` program.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::DateTime;
use tokio::task::JoinHandle;

use super::{Oid, RepackExtent, Repository, RepositoryId, RepositoryStore, Signature};

/// An empty repository in a separate store.
pub(super) struct Fixture {
    pub(super) root: tempfile::TempDir,
    pub(super) store: RepositoryStore,
    pub(super) id: RepositoryId,
    pub(super) repository: Repository,
}

impl Fixture {
    pub(super) async fn new(default_branch: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = RepositoryStore::new(root.path(), 4).unwrap();
        let id = RepositoryId::of_project(7);
        let repository = store.create(&id, default_branch).await.unwrap();
        Self {
            root,
            store,
            id,
            repository,
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.repository.path()
    }

    /// Returns a `git` command in the repository that ignores the machine's configuration.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        command(&self.path(), arguments)
    }

    /// Runs `git` and returns its output.
    pub(super) fn git(&self, arguments: &[&str]) -> String {
        self.git_stdin(arguments, b"")
    }

    /// Runs `git` with an input and returns its output.
    pub(super) fn git_stdin(&self, arguments: &[&str], input: &[u8]) -> String {
        run(self.command(arguments), input)
    }

    /// Asserts that `git fsck` reports no problem.
    pub(super) fn fsck(&self) {
        self.git(&["fsck", "--strict", "--no-dangling"]);
    }
}

/// Waits until a condition becomes true, with a time limit.
pub(super) async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .unwrap();
}

pub(super) fn command(directory: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([
            ("GIT_AUTHOR_NAME", "Fixture"),
            ("GIT_AUTHOR_EMAIL", "fixture@example.com"),
        ])
        .envs([
            ("GIT_COMMITTER_NAME", "Fixture"),
            ("GIT_COMMITTER_EMAIL", "fixture@example.com"),
        ])
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(super) fn run(mut command: Command, input: &[u8]) -> String {
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input).unwrap();
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns an identity with a fixed time and an offset that is not a whole hour.
pub(super) fn signature() -> Signature {
    let time = DateTime::parse_from_rfc3339("2024-05-06T07:08:09-03:30").unwrap();
    Signature {
        name: "Ada Lövelace".into(),
        email: "ada@example.com".into(),
        time,
    }
}

/// Adds or replaces files on a branch, one second later each time, with `git fast-import` instead of the code
/// under test.
pub(super) async fn commit(repository: &Repository, branch: &str, files: &[(&str, &str)]) -> Oid {
    static SECONDS: AtomicI64 = AtomicI64::new(1_600_000_000);
    commit_at(repository, branch, files, SECONDS.fetch_add(1, Ordering::SeqCst)).await
}

/// Starts a task that commits and repacks several times.
pub(super) fn write_and_repack(repository: &Repository) -> JoinHandle<()> {
    let repository = repository.clone();
    tokio::spawn(async move {
        for number in 0..6 {
            commit(&repository, "main", &[("file", &number.to_string())]).await;
            repository.repack(RepackExtent::Full).await.unwrap();
        }
    })
}

/// As [`commit`], at a time in seconds since the epoch.
pub(super) async fn commit_at(
    repository: &Repository,
    branch: &str,
    files: &[(&str, &str)],
    seconds: i64,
) -> Oid {
    let mut stream = format!("commit refs/heads/{branch}\n");
    let message = format!("Change {branch}\n");
    let identity = format!("Fixture <fixture@example.com> {seconds} +0100");
    write!(
        stream,
        "author {identity}\ncommitter {identity}\ndata {}\n{message}",
        message.len()
    )
    .unwrap();
    if repository.branch(branch).await.is_ok() {
        writeln!(stream, "from refs/heads/{branch}^0").unwrap();
    }
    for (path, content) in files {
        writeln!(
            stream,
            "M 100644 inline \"{path}\"\ndata {}\n{content}",
            content.len()
        )
        .unwrap();
    }
    run(
        command(&repository.path(), &["fast-import", "--quiet"]),
        stream.as_bytes(),
    );
    repository.branch(branch).await.unwrap().commit
}
