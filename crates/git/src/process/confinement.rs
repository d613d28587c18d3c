//! Limits of a program, and the files that it can access.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::Program;
use crate::launcher::{Confinement, ResourceLimits};
use crate::{Error, OBJECT_TOO_LARGE, Oid};

/// Maximum number of files that a process has open.
const MAX_OPEN_FILES: u64 = 1024;
/// Maximum number of processes and threads of the user. It stops a process that starts others without end; the limit of the
/// service on the machine can be lower.
const MAX_PROCESSES: u64 = 8192;
/// Maximum processor time of a process in seconds. A run may take longer, because it waits for its client.
const MAX_CPU_SECONDS: u64 = 60 * 60;
/// Signal after too much processor time.
const SIGXCPU: i32 = 24;
/// Signal after too large a file was written.
const SIGXFSZ: i32 = 25;

/// Files that a program can access in addition to those of the system, and the repository for reading.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// Whether the repository can be changed.
    writes: bool,
    /// The repository whose objects are copied.
    pub(super) copied: Option<PathBuf>,
    /// Other directories that can be read.
    read: Vec<PathBuf>,
    /// Directory with hooks.
    hooks: Option<PathBuf>,
    /// Another directory that can be changed.
    exchange: Option<PathBuf>,
    /// Maximum size of a written file in bytes.
    file_bytes: Option<u64>,
}

impl Program {
    /// Allows the run to change the repository. Otherwise it can only read.
    pub(crate) fn writes(mut self) -> Self {
        self.access.writes = true;
        self
    }

    /// Allows the run to read another repository, and reserves the memory for its objects.
    pub(crate) fn copies(mut self, source: &Path) -> Self {
        self.access.copied = Some(source.to_owned());
        self
    }

    /// Allows the run to read directories.
    pub(crate) fn reads(mut self, directories: Vec<PathBuf>) -> Self {
        self.access.read = directories;
        self
    }

    /// Allows the run to execute the hooks in a directory, and to change the files in another one.
    pub(crate) fn hooks(mut self, hooks: &Path, exchange: &Path) -> Self {
        self.access.hooks = Some(hooks.to_owned());
        self.access.exchange = Some(exchange.to_owned());
        self
    }

    /// Limits the size of each file that the run writes.
    pub(crate) fn file_limit(mut self, bytes: u64) -> Self {
        self.access.file_bytes = Some(bytes);
        self
    }

    /// Returns the confinement of the run in the repository at `directory`.
    pub(super) fn confinement(&self, directory: &Path, memory_bytes: u64) -> Confinement {
        let access = &self.access;
        let repository = vec![directory.to_owned()];
        let (mut readable, mut writable) = match access.writes {
            true => (Vec::new(), repository),
            false => (repository, Vec::new()),
        };
        readable.extend(access.copied.iter().chain(&access.read).cloned());
        writable.extend(access.exchange.clone());
        Confinement {
            limits: ResourceLimits {
                memory_bytes: Some(memory_bytes),
                cpu_seconds: Some(self.time_limit.as_secs().clamp(1, MAX_CPU_SECONDS)),
                open_files: Some(MAX_OPEN_FILES),
                file_bytes: if access.writes { access.file_bytes } else { Some(0) },
                processes: Some(MAX_PROCESSES),
            },
            executable: access.hooks.iter().cloned().collect(),
            readable,
            writable,
        }
    }
}

/// Returns the error of a program that failed because of a limit.
pub(super) fn exceeded_limit(stderr: &str, status: ExitStatus) -> Option<Error> {
    match status.signal() {
        Some(SIGXCPU) => return Some(Error::Timeout),
        Some(SIGXFSZ) => return Some(Error::LimitExceeded("Git wrote more than it may")),
        _ => {}
    }
    is_out_of_memory(stderr).then_some(Error::LimitExceeded(OBJECT_TOO_LARGE))
}

/// Returns the object that Git could not read, if that is the reason of its failure. Git does not print whether the object
/// is missing, or takes too much memory.
pub(super) fn unreadable_object(stderr: &str) -> Option<Oid> {
    let (_, message) = stderr.split_once("fatal: unable to read ")?;
    let words = message.lines().next()?.split(|c: char| !c.is_ascii_hexdigit());
    let id = words.into_iter().find(|word| word.len() == 40)?;
    Oid::from_str(id).ok()
}

/// Messages of Git about an allocation that failed: its own, of the compression, and of mapped files.
const OUT_OF_MEMORY: [&str; 7] = [
    "fatal: Out of memory",
    "fatal: attempting to allocate",
    "inflateInit: out of memory",
    "inflate: out of memory",
    "deflateInit: out of memory",
    "deflate: out of memory",
    "mmap failed: Cannot allocate memory",
];

/// Returns whether Git printed that an allocation failed.
pub(crate) fn is_out_of_memory(text: &str) -> bool {
    OUT_OF_MEMORY.iter().any(|message| text.contains(message))
}

#[cfg(test)]
mod tests {
    use super::is_out_of_memory;

    #[test]
    fn all_messages_about_missing_memory_are_recognized() {
        for text in [
            "fatal: Out of memory, malloc failed (tried to allocate 10 bytes)",
            "fatal: inflateInit: out of memory (no message)",
            "error: x\nfatal: inflate: out of memory",
            "fatal: mmap failed: Cannot allocate memory",
        ] {
            assert!(is_out_of_memory(text), "{text}");
        }
        for text in [
            "",
            "fatal: bad object",
            "error: inflate: data stream error (incorrect data check)",
        ] {
            assert!(!is_out_of_memory(text), "{text}");
        }
    }
}
