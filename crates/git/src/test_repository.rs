//! Test repository: a few hundred commits with merges, renames, mode changes and unusual names.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{Oid, Repository, RepositoryId, RepositoryStore};

/// Number of commits in the history before its merges.
const ROUNDS: usize = 120;

/// Paths that are added and removed; one is not ASCII, one contains a space.
pub(super) const PATHS: [&str; 9] = [
    "README.md",
    "src/main.rs",
    "src/deep/er/lib.rs",
    "src/deep/other.rs",
    "docs/übung.md",
    "docs/two words.txt",
    "run.sh",
    "logo.bin",
    "src/moved.rs",
];

/// A store with one repository in a temporary directory.
pub(super) struct TestRepository {
    directory: TempDir,
    pub(super) store: RepositoryStore,
    pub(super) repository: Repository,
}

impl TestRepository {
    /// Creates an empty repository whose `HEAD` is `main`.
    pub(super) fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = RepositoryStore::new(directory.path().join("repositories"), 4).unwrap();
        let repository = store.repository(&RepositoryId::of_project(1));
        std::fs::create_dir_all(repository.path()).unwrap();
        let sample = Self {
            directory,
            store,
            repository,
        };
        sample.git(&["init", "--quiet", "--bare", "--initial-branch=main", "."]);
        sample
    }

    /// Creates a repository with history but without a commit-graph.
    pub(super) fn with_history() -> Self {
        let sample = Self::empty();
        sample.import(&history());
        sample
    }

    /// Returns a directory next to the repositories.
    pub(super) fn scratch(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Feeds a stream to `git fast-import`.
    pub(super) fn import(&self, stream: &[u8]) {
        self.git_with(&["fast-import", "--quiet", "--force"], stream);
    }

    /// Returns the output of a `git` command in the repository, which must succeed.
    pub(super) fn git(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.git_with(arguments, b"")).into_owned()
    }

    /// Returns the output of a `git` command with input.
    pub(super) fn git_stdin(&self, arguments: &[&str], input: &[u8]) -> String {
        String::from_utf8_lossy(&self.git_with(arguments, input)).into_owned()
    }

    fn git_with(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("git")
            .args(arguments)
            .current_dir(self.repository.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, "Tester")))
            .envs(["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, "tester@example.com")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that fails before it has read all input reports the reason below.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input);
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    /// Returns the IDs that a `git` command prints, one on each line.
    pub(super) fn ids(&self, arguments: &[&str]) -> Vec<Oid> {
        self.git(arguments)
            .lines()
            .map(|line| Oid::from_str(line).unwrap())
            .collect()
    }

    /// Returns the commit of a revision.
    pub(super) fn id(&self, revision: &str) -> Oid {
        self.ids(&["rev-parse", "--verify", &format!("{revision}^{{commit}}")])[0]
    }
}

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Returns a history on `main` with merged side branches, some equal dates and some decreasing dates.
fn history() -> Vec<u8> {
    let mut numbers = Numbers(7);
    let mut stream = String::new();
    let mut tags = String::new();
    let mut mark = 0;
    let mut side: Option<usize> = None;
    for round in 0..ROUNDS {
        let date = 1_600_000_000 + (round * 100) as i64 - if round % 17 == 5 { 450 } else { 0 };
        mark += 1;
        let change = changes(&mut numbers, round);
        commit(
            &mut stream,
            "main",
            mark,
            date,
            &format!("Round {round}\n\nBody.\n"),
            &change,
        );
        if round % 10 == 3 {
            tags.push_str(&format!("reset refs/tags/v{round}\nfrom :{mark}\n\n"));
            let (main, branch) = (mark, format!("side-{round}"));
            for step in 0..3 {
                mark += 1;
                let from = if step == 0 {
                    format!("from :{main}\n")
                } else {
                    String::new()
                };
                // Some commits of a side branch have dates of the main line.
                let change = changes(&mut numbers, round + step);
                let date = date + step as i64 * 100;
                commit(
                    &mut stream,
                    &branch,
                    mark,
                    date,
                    "Side\n",
                    &format!("{from}{change}"),
                );
            }
            side = Some(mark);
        }
        if round % 10 == 8
            && let Some(merged) = side.take()
        {
            mark += 1;
            let change = if round % 20 == 8 {
                changes(&mut numbers, round)
            } else {
                String::new()
            };
            commit(
                &mut stream,
                "main",
                mark,
                date + 50,
                "Merge\n",
                &format!("merge :{merged}\n{change}"),
            );
        }
    }
    // Four parents do not fit into a record of the commit-graph.
    let merged = [13, 33, 53]
        .map(|round| format!("merge refs/heads/side-{round}\n"))
        .concat();
    let date = 1_600_000_000 + (ROUNDS * 100) as i64;
    commit(
        &mut stream,
        "main",
        mark + 1,
        date,
        "Octopus\n",
        &format!("{merged}{}", changes(&mut numbers, 0)),
    );
    for round in 0..3 {
        let change = changes(&mut numbers, round);
        commit(
            &mut stream,
            "main",
            mark + 2 + round,
            date + 100,
            "After\n",
            &change,
        );
    }
    // A branch that is never merged, with dates among those of the main line.
    for step in 0..4 {
        let from = if step == 0 {
            "from refs/heads/side-93\n"
        } else {
            ""
        };
        let change = changes(&mut numbers, step);
        let date = 1_600_009_000 + step as i64 * 700;
        commit(
            &mut stream,
            "apart",
            mark + 10 + step,
            date,
            "Apart\n",
            &format!("{from}{change}"),
        );
    }
    (stream + &tags).into_bytes()
}

fn commit(stream: &mut String, branch: &str, mark: usize, date: i64, message: &str, rest: &str) {
    let name = if mark.is_multiple_of(3) { "Ann" } else { "Bob" };
    let mail = name.to_lowercase();
    stream.push_str(&format!(
        "commit refs/heads/{branch}\nmark :{mark}\nauthor {name} <{mail}@example.com> {date} +0200\n\
         committer {name} <{mail}@example.com> {date} +0200\ndata {}\n{message}\n{rest}\n",
        message.len()
    ));
}

/// Returns the file changes of one commit, as fast-import commands.
fn changes(numbers: &mut Numbers, round: usize) -> String {
    let path = PATHS[numbers.below(PATHS.len() - 1)];
    let lines: String = (0..40)
        .map(|line| format!("line {line} {}\n", numbers.below(6) * (line % 3)))
        .collect();
    let content = match path {
        "logo.bin" => format!("\0{lines}"),
        // Only its mode changes.
        "run.sh" => "#!/bin/sh\n".to_owned(),
        _ => lines,
    };
    let mode = if path == "run.sh" && round.is_multiple_of(2) {
        "100755"
    } else {
        "100644"
    };
    let mut commands = format!("M {mode} inline {path}\ndata {}\n{content}\n", content.len());
    match round % 12 {
        // These paths were created just above, so the commands never fail.
        4 => commands.push_str(&format!("C \"{path}\" src/moved.rs\nD {path}\n")),
        7 => commands.push_str(&format!("D {path}\n")),
        9 => commands.push_str("M 120000 inline link\ndata 9\nREADME.md\n"),
        _ => {}
    }
    commands
}
