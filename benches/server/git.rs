//! The `git` program for comparison.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// A repository on disk.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Its directory.
    pub path: PathBuf,
}

/// Returns a `git` command that ignores this machine's configuration.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "Ada Lovelace")
        .env("GIT_AUTHOR_EMAIL", "ada@example.com")
        .env("GIT_COMMITTER_NAME", "Ada Lovelace")
        .env("GIT_COMMITTER_EMAIL", "ada@example.com")
        .env("LC_ALL", "C")
        .args(arguments);
    command
}

/// Runs a command with an input and returns its output and duration.
pub fn run(mut command: Command, input: &[u8]) -> Result<(Vec<u8>, Duration)> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_empty() {
        Stdio::null()
    } else {
        Stdio::piped()
    });
    let started = Instant::now();
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    let elapsed = started.elapsed();
    if output.status.success() {
        return Ok((output.stdout, elapsed));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed: {said}").into())
}

impl Repository {
    /// Returns a command in this repository.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("GIT_DIR", &self.path);
        command
    }

    /// Returns the duration of a command in this repository.
    pub fn time(&self, arguments: &[&str]) -> Result<Duration> {
        Ok(run(self.command(arguments), b"")?.1)
    }

    /// Returns the output lines of a command in this repository.
    pub fn lines(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let (output, _) = run(self.command(arguments), b"")?;
        Ok(String::from_utf8(output)?.lines().map(str::to_owned).collect())
    }

    /// Returns the first output line of a command in this repository.
    pub fn line(&self, arguments: &[&str]) -> Result<String> {
        let first = self.lines(arguments)?.into_iter().next();
        first.ok_or_else(|| format!("git {arguments:?} printed nothing").into())
    }
}

/// Removes a directory if it exists.
pub fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
