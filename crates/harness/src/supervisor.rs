//! The process that cleans up after a test run, even if the test processes are killed.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use crate::{directory, postgresql};

/// Environment variable that names the directory to supervise.
pub(crate) const REQUESTED: &str = "HOLDFAST_TEST_SUPERVISOR";
/// How long the directory remains without a test process. Cargo and nextest start one process after another.
const GRACE: Duration = Duration::from_secs(5);
/// Minimum age of an abandoned directory. A newer one may belong to a test process that has not locked it yet.
const ABANDONED: Duration = Duration::from_secs(60);

/// Supervises a directory if this process was started for it.
pub(crate) fn run_if_requested() -> Option<ExitCode> {
    let path = PathBuf::from(std::env::var_os(REQUESTED)?);
    // No process reads an error. The next run cleans up.
    let succeeded = supervise(&path).is_ok();
    Some(if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn supervise(path: &Path) -> io::Result<()> {
    // The terminal sends its signals to the session of the test process. Fails if this process leads one already.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    let mut own = directory::open(&path.join(directory::SUPERVISOR))?;
    if own.try_lock().is_err() {
        return Ok(());
    }
    own.set_len(0)?;
    writeln!(own, "{}", std::process::id())?;
    clear(path)?;
    let mut output = io::stdout();
    output.write_all(b"+")?;
    output.flush()?;
    remove_abandoned(path);
    let users = directory::open(&path.join(directory::USERS))?;
    loop {
        users.lock()?;
        users.unlock()?;
        std::thread::sleep(GRACE);
        if try_lock(&users)? {
            break;
        }
    }
    // A test process that starts now waits for the lock, and then creates another directory.
    remove(path)
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the content that a killed supervisor left.
fn clear(path: &Path) -> io::Result<()> {
    postgresql::stop(path);
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry
            .path()
            .extension()
            .is_none_or(|extension| extension != "lock")
        {
            directory::remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Stops the server and removes the directory.
fn remove(path: &Path) -> io::Result<()> {
    postgresql::stop(path);
    // The name becomes free at once, although removing takes a moment.
    let mut removed = path.as_os_str().to_owned();
    removed.push(format!(".{}", std::process::id()));
    std::fs::rename(path, &removed)?;
    std::fs::remove_dir_all(removed)
}

/// Removes the directories of other runs whose supervisor was killed. Directories without the file of a supervisor belong to
/// other programs, such as `holdfast test-server`, whose directories have names with the same start.
fn remove_abandoned(own: &Path) {
    let Some(base) = own.parent() else { return };
    let user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let has_prefix = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(directory::PREFIX.as_bytes());
        let is_old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > ABANDONED);
        let is_candidate = has_prefix
            && path != own
            && path.join(directory::SUPERVISOR).is_file()
            && entry.metadata().is_ok_and(|metadata| {
                metadata.is_dir() && metadata.uid() == user && metadata.modified().is_ok_and(is_old)
            });
        let is_unused = |name| directory::is_locked(&path.join(name)).is_ok_and(|locked| !locked);
        if is_candidate && is_unused(directory::SUPERVISOR) && is_unused(directory::USERS) {
            // Another supervisor may remove it at the same time.
            let _ = remove(&path);
        }
    }
}
