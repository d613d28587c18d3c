//! A repository of 200 commits, with the same commit IDs in each run.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;

/// Number of commits.
const COMMITS: usize = 200;
/// Numbers of directories below `src`, and of files in each of them.
const DIRECTORIES: usize = 8;
const FILES: usize = 10;
/// Time of the first commit in seconds since the epoch, and seconds between two commits.
const FIRST_TIME: usize = 1_500_000_000;
const INTERVAL: usize = 7_900;
/// Path of a file of exactly [`PAGE_BYTES`] bytes.
pub const PAGE: &str = "docs/manual/page.md";
/// Size of [`PAGE`].
const PAGE_BYTES: usize = 4096;
/// Path of the file that new commits change.
pub const CHANGED_FILE: &str = "src/part-0/file-0.rs";

/// Creates the repository.
pub fn create(path: &Path) -> Result<()> {
    let directory = path.to_string_lossy();
    run(&["init", "-q", "--bare", "-b", "main", &directory], path, "")?;
    run(&["fast-import", "--quiet"], path, &commits())
}

/// Runs `git` in the repository with an input. Ignores the configuration of the machine.
fn run(arguments: &[&str], path: &Path, input: &str) -> Result<()> {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_DIR", path)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    match child.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("git {arguments:?} ended with {status}").into()),
    }
}

/// Returns the commits as input of `git fast-import`.
fn commits() -> String {
    let mut stream = String::new();
    for number in 0..COMMITS {
        let time = FIRST_TIME + number * INTERVAL;
        let person = format!("Ada Lovelace <ada@example.com> {time} +0000");
        let message = format!("Change {number}\n\nThe lamp flashed too often.\n");
        // Writing to a string cannot fail.
        let _ = write!(
            stream,
            "commit refs/heads/main\nauthor {person}\ncommitter {person}\n"
        );
        add_data(&mut stream, &message);
        if number == 0 {
            add_file(&mut stream, PAGE, &page());
            for file in 0..DIRECTORIES * FILES {
                add_file(&mut stream, &path(file), &content(file, 0));
            }
        } else {
            for file in [number * 7, number * 13 + 5] {
                let file = file % (DIRECTORIES * FILES);
                add_file(&mut stream, &path(file), &content(file, number));
            }
        }
    }
    stream
}

fn add_file(stream: &mut String, path: &str, content: &str) {
    let _ = writeln!(stream, "M 100644 inline {path}");
    add_data(stream, content);
}

fn add_data(stream: &mut String, text: &str) {
    let _ = write!(stream, "data {}\n{text}\n", text.len());
}

fn path(file: usize) -> String {
    format!("src/part-{}/file-{}.rs", file / FILES, file % FILES)
}

/// Returns the content of a file since a commit, which changed two of its lines.
fn content(file: usize, commit: usize) -> String {
    let mut lines: Vec<String> = (0..40)
        .map(|line| format!("let value_{line} = {};\n", file * 1_000 + line * 37))
        .collect();
    for line in [commit % 40, (commit + 20) % 40] {
        if let Some(line) = lines.get_mut(line) {
            *line = format!("let changed = {commit};\n");
        }
    }
    lines.concat()
}

fn page() -> String {
    let lines =
        (0..).map(|line| format!("{line}. Wind the clock at noon, and trim the wick of lamp {line}.\n"));
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        if text.len() >= PAGE_BYTES {
            break;
        }
    }
    text.truncate(PAGE_BYTES - 1);
    text.push('\n');
    text
}
