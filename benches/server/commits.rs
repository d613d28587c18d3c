//! Commits of one and of a hundred changed files over HTTP, compared with `git` plumbing. The plumbing needs
//! six processes: hash-object, read-tree, update-index, write-tree, commit-tree, update-ref.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Result;
use crate::git::{self, Repository};
use crate::http::{Connection, Request};
use crate::instance::{PROJECT, TOKEN};
use crate::report::{Measurement, Report};

/// Branches of the server and of `git`.
const SERVERS: &str = "measured-server";
const GITS: &str = "measured-git";

/// Measures both sizes and adds them to the report.
pub async fn measure(
    address: SocketAddr,
    repository: &Repository,
    directory: &Path,
    report: &mut Report,
) -> Result<()> {
    report.part("Committing", "server", "git plumbing")?;
    let mut connection = Connection::open(address).await?;
    for branch in [SERVERS, GITS] {
        let path = format!("/api/v4/projects/{PROJECT}/repository/branches?branch={branch}&ref=main");
        connection
            .succeed(&Request::new("POST", &path, Some(TOKEN)))
            .await?;
    }
    let plumbing = Plumbing::new(repository, &directory.join("instance/plumbing"))?;
    let paths = repository.lines(&["ls-tree", "-r", "--name-only", "main"])?;
    for (actions, rounds, most) in [(1, 40, 0.3), (100, 15, 0.7)] {
        let (mut server, mut git) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let changed = paths.iter().cycle().skip(round * actions).take(actions);
            let changes: Vec<_> = changed
                .map(|path| (path.as_str(), content(path, actions, round)))
                .collect();
            server.push(over_http(&mut connection, &changes).await?);
            git.push(plumbing.commit(&changes)?);
        }
        let name = match actions {
            1 => "commit of 1 action".to_owned(),
            many => format!("commit of {many} actions"),
        };
        report.add(&Measurement::times(&name, &mut server, &mut git, most))?;
    }
    Ok(())
}

/// Returns about two kilobytes that are not in the history.
fn content(path: &str, actions: usize, round: usize) -> String {
    let lines = (0..40).map(|line| format!("{path}, line {line} of round {round} with {actions} actions\n"));
    lines.collect()
}

async fn over_http(connection: &mut Connection, changes: &[(&str, String)]) -> Result<Duration> {
    let actions: Vec<_> = changes
        .iter()
        .map(|(path, content)| json!({ "action": "update", "file_path": path, "content": content }))
        .collect();
    let body = json!({ "branch": SERVERS, "commit_message": "Change files", "actions": actions });
    let path = format!("/api/v4/projects/{PROJECT}/repository/commits");
    connection.succeed(&Request::post(&path, TOKEN, &body)).await
}

/// The six processes.
struct Plumbing<'a> {
    repository: &'a Repository,
    /// Directory of the new contents before they are hashed.
    contents: PathBuf,
    index: PathBuf,
}

impl<'a> Plumbing<'a> {
    fn new(repository: &'a Repository, directory: &Path) -> Result<Self> {
        let contents = directory.join("contents");
        std::fs::create_dir_all(&contents)?;
        Ok(Self {
            repository,
            contents,
            index: directory.join("index"),
        })
    }

    /// Runs one of the processes and returns its output lines.
    fn run(&self, arguments: &[&str], input: &str) -> Result<Vec<String>> {
        let mut command = self.repository.command(arguments);
        command.env("GIT_INDEX_FILE", &self.index);
        let (output, _) = git::run(command, input.as_bytes())?;
        Ok(String::from_utf8(output)?.lines().map(str::to_owned).collect())
    }

    /// Creates a commit and returns the duration; the contents are on disk before.
    fn commit(&self, changes: &[(&str, String)]) -> Result<Duration> {
        let mut files = String::new();
        for (number, (_, content)) in changes.iter().enumerate() {
            let file = self.contents.join(number.to_string());
            std::fs::write(&file, content)?;
            files.push_str(&format!("{}\n", file.display()));
        }
        let parent = self.repository.line(&["rev-parse", GITS])?;
        if self.index.exists() {
            std::fs::remove_file(&self.index)?;
        }
        let first = |lines: Vec<String>| lines.into_iter().next().ok_or("git printed nothing");
        let started = Instant::now();
        let blobs = self.run(&["hash-object", "-w", "--stdin-paths"], &files)?;
        self.run(&["read-tree", &parent], "")?;
        let entries = changes.iter().zip(&blobs);
        let entries: String = entries
            .map(|((path, _), blob)| format!("100644 {blob}\t{path}\n"))
            .collect();
        self.run(&["update-index", "--index-info"], &entries)?;
        let tree = first(self.run(&["write-tree"], "")?)?;
        let commit = ["commit-tree", "-p", &parent, "-m", "Change files", &tree];
        let commit = first(self.run(&commit, "")?)?;
        let reference = format!("refs/heads/{GITS}");
        self.run(&["update-ref", &reference, &commit, &parent], "")?;
        Ok(started.elapsed())
    }
}
