//! Recognizes errors that are caused by a full disk.

use std::error::Error;
use std::io::{self, ErrorKind};

use sea_orm::DbErr;

use crate::database;

/// Returns whether a full disk caused an error of the system or of the database, directly or as its source.
#[must_use]
pub fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        // The inner error of an `io::Error` is not its source.
        return matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
            || error.get_ref().is_some_and(|inner| is_disk_full(inner));
    }
    if let Some(error) = error.downcast_ref::<DbErr>()
        && database::is_disk_full(error)
    {
        return true;
    }
    error.source().is_some_and(is_disk_full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_disk_is_found_below_other_errors() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        assert!(is_disk_full(&full()));
        assert!(is_disk_full(&io::Error::other(full())));
        assert!(is_disk_full(&database::Error::File(
            ErrorKind::QuotaExceeded.into()
        )));
        assert!(!is_disk_full(&io::Error::from(ErrorKind::PermissionDenied)));
        assert!(!is_disk_full(&io::Error::other("No space left on device")));
    }
    harness::tests![full_disk_is_found_below_other_errors];
}
