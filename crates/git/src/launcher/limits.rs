//! Resource limits of a process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits on each process of a program; the kernel enforces them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResourceLimits {
    /// Size of the writable private memory in bytes. Mapped packs do not count.
    pub(crate) memory_bytes: Option<u64>,
    /// Processor time in seconds.
    pub(crate) cpu_seconds: Option<u64>,
    /// Number of open files.
    pub(crate) open_files: Option<u64>,
    /// Size of a written file in bytes.
    pub(crate) file_bytes: Option<u64>,
    /// Number of processes and threads of the user, not only of this program.
    pub(crate) processes: Option<u64>,
}

impl ResourceLimits {
    /// Returns the names and values of the limits that are set.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("memory", self.memory_bytes),
            ("cpu", self.cpu_seconds),
            ("files", self.open_files),
            ("file-size", self.file_bytes),
            ("processes", self.processes),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// Sets a limit by its name; `None` if there is no limit of that name.
    pub(super) fn set(&mut self, name: &[u8], value: u64) -> Option<()> {
        let limit = match name {
            b"memory" => &mut self.memory_bytes,
            b"cpu" => &mut self.cpu_seconds,
            b"files" => &mut self.open_files,
            b"file-size" => &mut self.file_bytes,
            b"processes" => &mut self.processes,
            _ => return None,
        };
        *limit = Some(value);
        Some(())
    }

    /// Applies the limits to this process and its children.
    ///
    /// # Errors
    /// If the kernel rejects one.
    pub(super) fn apply(&self) -> io::Result<()> {
        for (resource, limit) in [
            (Resource::Core, Some(0)),
            (Resource::Cpu, self.cpu_seconds),
            (Resource::Nofile, self.open_files),
            (Resource::Fsize, self.file_bytes),
            (Resource::Nproc, self.processes),
            (Resource::Data, self.memory_bytes),
        ] {
            let Some(limit) = limit else { continue };
            // A limit can only be lowered.
            let highest = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let maximum = match resource {
                // The kernel sends SIGXCPU at the current limit, and SIGKILL, which has many causes, at the maximum.
                Resource::Cpu => limit.saturating_add(1),
                _ => limit,
            };
            setrlimit(
                resource,
                Rlimit {
                    current: Some(limit.min(highest)),
                    maximum: Some(maximum.min(highest)),
                },
            )?;
        }
        Ok(())
    }
}
