//! The git client.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns `http://name:password@host/path`.
pub fn address(base: &str, name: &str, password: &str, path: &str) -> String {
    let host = base.strip_prefix("http://").expect("an address");
    let password = super::client::segment(password);
    format!("http://{name}:{password}@{host}/{path}.git")
}

/// A directory for the git client.
pub struct Work {
    /// Path of the directory.
    pub path: PathBuf,
    _guard: Option<tempfile::TempDir>,
}

impl Work {
    /// Creates a working copy with a first commit on `main`.
    pub async fn new() -> Self {
        let work = Self::empty();
        work.git(&["init", "--quiet", "--initial-branch=main", "."]).await;
        work.commit("README", "hello").await;
        work
    }

    /// Creates an empty directory.
    pub fn empty() -> Self {
        let guard = super::temporary_directory();
        Self { path: guard.path().to_owned(), _guard: Some(guard) }
    }

    /// Returns a subdirectory.
    pub fn below(&self, name: &str) -> Self {
        Self { path: self.path.join(name), _guard: None }
    }

    /// Writes and commits a file, and returns the ID of the commit.
    pub async fn commit(&self, file: &str, content: &str) -> String {
        std::fs::write(self.path.join(file), content).expect("a file");
        self.git(&["add", "--all"]).await;
        self.git(&["commit", "--quiet", "--allow-empty", "-m", file]).await;
        self.git(&["rev-parse", "HEAD"]).await
    }

    /// Runs git, which must succeed, and returns its output.
    pub async fn git(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "git {arguments:?}: {}", output_text(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs git, which must fail, and returns its output.
    pub async fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "git {arguments:?} succeeded: {}", output_text(&output));
        output_text(&output)
    }

    /// Runs git and returns its result.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.expect("git")
    }

    /// Returns a git command for this directory.
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::from(command(&self.path, arguments));
        command.kill_on_drop(true);
        command
    }
}

/// Returns a git command for a directory, isolated from the system configuration.
pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .env_remove("http_proxy")
        .env_remove("all_proxy")
        .stdin(Stdio::null());
    command
}

/// Returns the complete output of a program.
pub fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
