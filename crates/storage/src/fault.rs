//! Recognizes errors whose cause is the machine or the database server, not the request.

use std::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sea_orm::DbErr;

use crate::database;

/// Error numbers of Linux for too many open files, of the process and of the machine.
const TOO_MANY_FILES: [i32; 2] = [24, 23];
/// Error numbers of Linux for an error of a device, and for a damaged file system.
const FAILED_DISK: [i32; 2] = [5, 117];

/// Time after an observation of too many open files in which errors without a known cause count as this fault.
const EXHAUSTION_PERIOD: Duration = Duration::from_secs(5);
/// Number of files that a process must be able to open. Other requests close files between an error and its analysis.
const SPARE_FILES: usize = 16;

/// When too many open files were observed last.
static EXHAUSTED_AT: Mutex<Option<Instant>> = Mutex::new(None);

/// Fault of the machine or of the database server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A disk has no space, or a quota is exceeded.
    DiskFull,
    /// A file system is mounted read-only.
    ReadOnlyDisk,
    /// A disk or its file system has an error.
    FailedDisk,
    /// The process or the machine has too many open files.
    TooManyFiles,
    /// The database cannot be reached, restarts, or cannot use its disk.
    DatabaseUnavailable,
}

/// Returns the fault that caused an error of the system or of the database, directly or as its source.
#[must_use]
pub fn fault(error: &(dyn Error + 'static)) -> Option<Fault> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        // The inner error of an `io::Error` is not its source.
        return of_system(error).or_else(|| error.get_ref().and_then(|inner| fault(inner)));
    }
    let found = error.downcast_ref::<DbErr>().and_then(database::fault);
    found.or_else(|| error.source().and_then(fault))
}

/// Returns [`Fault::TooManyFiles`] if the process can open hardly any other files, or could not a moment ago. Some libraries
/// report that as another error: libgit2 as a missing object.
#[must_use]
pub fn exhausted_files() -> Option<Fault> {
    let opened: io::Result<Vec<File>> = (0..SPARE_FILES).map(|_| File::open("/dev/null")).collect();
    if let Err(error) = opened
        && of_system(&error) == Some(Fault::TooManyFiles)
    {
        record_exhausted_files();
    }
    let observed = *EXHAUSTED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    observed
        .filter(|instant| instant.elapsed() < EXHAUSTION_PERIOD)
        .map(|_| Fault::TooManyFiles)
}

/// Records that the process or the machine has too many open files.
pub fn record_exhausted_files() {
    let mut observed = EXHAUSTED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    *observed = Some(Instant::now());
}

fn of_system(error: &io::Error) -> Option<Fault> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Fault::DiskFull),
        ErrorKind::ReadOnlyFilesystem => Some(Fault::ReadOnlyDisk),
        _ => match error.raw_os_error() {
            Some(code) if FAILED_DISK.contains(&code) => Some(Fault::FailedDisk),
            Some(code) => TOO_MANY_FILES.contains(&code).then_some(Fault::TooManyFiles),
            // Libraries that add a path to an error leave only its text.
            None => TOO_MANY_FILES
                .iter()
                .any(|code| error.to_string().contains(&format!("(os error {code})")))
                .then_some(Fault::TooManyFiles),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_are_found_below_other_errors() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        assert_eq!(fault(&full()), Some(Fault::DiskFull));
        assert_eq!(fault(&io::Error::other(full())), Some(Fault::DiskFull));
        assert_eq!(
            fault(&database::Error::File(ErrorKind::QuotaExceeded.into())),
            Some(Fault::DiskFull)
        );
        assert_eq!(fault(&io::Error::from(ErrorKind::PermissionDenied)), None);
        assert_eq!(fault(&io::Error::other("No space left on device")), None);
        assert_eq!(
            fault(&io::Error::other(io::Error::from_raw_os_error(30))),
            Some(Fault::ReadOnlyDisk)
        );
        assert_eq!(fault(&io::Error::from_raw_os_error(5)), Some(Fault::FailedDisk));
        // Errors that wrap the error of the database or of the system.
        let closed = || DbErr::ConnectionAcquire(sea_orm::ConnAcquireErr::ConnectionClosed);
        for error in [
            Box::new(crate::jobs::EnqueueError::Database(closed())) as Box<dyn Error>,
            Box::new(database::Error::Database(closed())),
        ] {
            assert_eq!(fault(error.as_ref()), Some(Fault::DatabaseUnavailable));
        }
        for code in TOO_MANY_FILES {
            let error = io::Error::from_raw_os_error(code);
            let with_path = io::Error::other(format!("{error} at path \"/x\""));
            assert_eq!(fault(&error), Some(Fault::TooManyFiles));
            assert_eq!(fault(&with_path), Some(Fault::TooManyFiles));
        }
    }

    fn exhausted_files_are_reported_a_moment_later() {
        record_exhausted_files();
        assert_eq!(exhausted_files(), Some(Fault::TooManyFiles));
    }
    harness::tests![
        faults_are_found_below_other_errors,
        exhausted_files_are_reported_a_moment_later
    ];
}
