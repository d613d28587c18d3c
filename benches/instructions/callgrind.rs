//! Runs this program under callgrind, and reads the counts.
//!
//! Callgrind resets and writes its counters when certain functions are called (`counting.rs`), so the program needs no
//! headers of valgrind. Valgrind runs one thread at a time, and callgrind adds the instructions of all threads.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::calls;
use crate::counting::REQUESTS;

/// First argument of a process that is counted.
pub const ARGUMENT: &str = "count";

/// Instructions of a call.
pub struct Count {
    /// Name of the call.
    pub name: &'static str,
    /// Instructions of one request on average.
    pub instructions: u64,
}

/// Counts all calls, with one process for each instance at the same time. Stores the profile of each call in a
/// directory.
pub fn count(instances: &[PathBuf], profiles: &Path) -> Result<Vec<Count>> {
    if profiles.exists() {
        fs::remove_dir_all(profiles)?;
    }
    let mut processes = Vec::new();
    for (part, instance) in instances.iter().enumerate() {
        let directory = profiles.join(part.to_string());
        fs::create_dir_all(&directory)?;
        processes.push((part, start(instance, part, &directory)?, directory));
    }
    let mut counts = Vec::new();
    for (part, mut process, directory) in processes {
        let status = process.wait()?;
        if !status.success() {
            let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
            return Err(format!("valgrind ended with {status}:\n{log}").into());
        }
        for (number, call) in calls::part(part).into_iter().enumerate() {
            let profile = directory.join(format!("profile.{}", number + 1));
            let total = total(&fs::read_to_string(&profile)?).ok_or("a profile has no total")?;
            fs::rename(profile, profiles.join(file_name(call.name)))?;
            counts.push(Count {
                name: call.name,
                instructions: total / REQUESTS as u64,
            });
        }
        fs::remove_dir_all(directory)?;
    }
    let order = |count: &Count| calls::all().iter().position(|call| call.name == count.name);
    counts.sort_by_key(order);
    Ok(counts)
}

fn start(instance: &Path, part: usize, directory: &Path) -> Result<Child> {
    let log = File::create(directory.join("log"))?;
    let mut output = std::ffi::OsString::from("--callgrind-out-file=");
    output.push(directory.join("profile"));
    Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--zero-before=*count_begins*",
            "--dump-before=*count_ends*",
            "--dump-line=no",
            "--fair-sched=try",
        ])
        .arg(output)
        .arg(std::env::current_exe()?)
        .arg(ARGUMENT)
        .arg(instance)
        .arg(part.to_string())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .map_err(|error| {
            format!("valgrind cannot be started (Debian: apt-get install valgrind): {error}").into()
        })
}

/// Returns the total of a profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().find_map(|line| line.strip_prefix("totals: "))?;
    line.trim().parse().ok()
}

fn file_name(call: &str) -> String {
    format!("{}.callgrind", call.replace(", ", "-").replace(' ', "-"))
}
