//! Recognizes errors that are caused by a full disk.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use sea_orm::DbErr;
use storage::database;

/// Message of the operating system for a full disk, in errors of libraries and programs without an error code.
const NO_SPACE: &str = "No space left on device";
/// Message of the operating system for an exceeded disk quota.
const NO_QUOTA: &str = "Disk quota exceeded";

/// Returns whether a full disk caused an error, in this process, in Git or in the database.
pub(super) fn is_cause_of(error: &(dyn StdError + 'static)) -> bool {
    let mut current = Some(error);
    while let Some(error) = current {
        let is_full = if let Some(error) = error.downcast_ref::<io::Error>() {
            matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        } else if let Some(error) = error.downcast_ref::<DbErr>() {
            database::is_disk_full(error)
        } else if let Some(git::Error::Git2(_) | git::Error::Gix(_) | git::Error::Program { .. }) =
            error.downcast_ref::<git::Error>()
        {
            let text = error.to_string();
            text.contains(NO_SPACE) || text.contains(NO_QUOTA)
        } else {
            false
        };
        if is_full {
            return true;
        }
        current = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::error::Error;

    fn is_full(error: impl Into<Error>) -> bool {
        matches!(error.into(), Error::StorageFull)
    }

    #[test]
    fn full_disk_is_found_below_other_errors() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        assert!(is_full(Error::internal(full())));
        assert!(is_full(Error::internal(io::Error::other(full()))));
        assert!(is_full(git::Error::Io(full())));
        assert!(is_full(git::Error::Io(ErrorKind::QuotaExceeded.into())));
        assert!(is_full(git::Error::Program {
            command: "merge-tree",
            stderr: "error: unable to write loose object file: No space left on device".to_owned(),
        }));
        assert!(!is_full(git::Error::Io(ErrorKind::PermissionDenied.into())));
        assert!(!is_full(Error::internal(
            "No space left on device in a text of a user"
        )));
    }
}
