//! Free space of the disks of the instance, which is reported before a write fails.

use std::io;
use std::path::Path;

use crate::kernel::Backend;

/// Space of the file system of a directory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Space that the server can still use.
    pub free: u64,
    /// Total space.
    pub total: u64,
}

/// State of the free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceState {
    /// At least the configured minimum.
    Sufficient,
    /// Less than the configured minimum.
    Low,
    /// So little that the next write may fail.
    Exhausted,
}

/// Space below which writes are expected to fail, in bytes.
const EXHAUSTED_BYTES: u64 = 1 << 20;

impl DiskSpace {
    /// Reads the space of the file system that contains a directory. Blocks the thread for microseconds, or longer on a
    /// network file system.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be accessed.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(directory)?;
        Ok(Self {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    /// Reads the space of the disk with the data directory, or of the disk with the repositories if that disk has less
    /// free space.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be accessed.
    pub async fn of_instance(backend: &Backend) -> io::Result<Self> {
        let data_dir = backend.instance.data_dir.clone();
        let repositories = backend.repositories.directory().to_owned();
        let read = move || {
            let (data, repositories) = (Self::of(&data_dir)?, Self::of(&repositories)?);
            Ok(if repositories.free < data.free {
                repositories
            } else {
                data
            })
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(io::Error::other)?
    }

    /// Returns the state of the free space. `low_bytes` is the configured minimum.
    #[must_use]
    pub fn state(self, low_bytes: u64) -> SpaceState {
        match self.free {
            free if free < EXHAUSTED_BYTES => SpaceState::Exhausted,
            free if free < low_bytes => SpaceState::Low,
            _ => SpaceState::Sufficient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_has_three_states() {
        let state = |free| DiskSpace { free, total: 1 << 40 }.state(1 << 30);
        assert_eq!(state(2 << 30), SpaceState::Sufficient);
        assert_eq!(state(512 << 20), SpaceState::Low);
        assert_eq!(state(0), SpaceState::Exhausted);
        let space = DiskSpace::of(Path::new("/")).expect("the root directory");
        assert!(space.free <= space.total && space.total > 0);
    }
}
