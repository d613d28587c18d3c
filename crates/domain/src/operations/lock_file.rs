//! Files in a data directory that processes lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Opens a lock file of a data directory, and creates it if it does not exist. Blocks.
///
/// # Errors
/// If the file cannot be opened.
pub(super) fn open(data_dir: &Path, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(data_dir.join(name))?;
    adopt_owner(&file, data_dir)?;
    Ok(file)
}

/// Changes the owner of a file that root created to the owner of the data directory: it must not exclude the user of the
/// server. Only root can change the owner. Blocks.
///
/// # Errors
/// If the owner cannot be read or changed.
pub(super) fn adopt_owner(file: &File, data_dir: &Path) -> io::Result<()> {
    let (owner, created) = (std::fs::metadata(data_dir)?, file.metadata()?);
    if rustix::process::geteuid().is_root() && owner.uid() != created.uid() {
        std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}
