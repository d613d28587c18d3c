//! Progress of a sweep, which deletes objects that nothing uses.

/// Number of consecutive failures after which a sweep stops, because the storage is probably not reachable.
const MAX_CONSECUTIVE_FAILURES: u32 = 10;

/// Counts the deletions of a sweep. An object that cannot be deleted does not stop the sweep.
#[derive(Debug)]
pub(crate) struct SweepProgress<E> {
    deleted: u64,
    failed: u64,
    consecutive_failures: u32,
    error: Option<E>,
}

impl<E> SweepProgress<E> {
    /// Creates the progress of a sweep.
    pub fn new() -> Self {
        Self {
            deleted: 0,
            failed: 0,
            consecutive_failures: 0,
            error: None,
        }
    }

    /// Records the deletion of an object. Returns whether the sweep can continue.
    pub fn record(&mut self, deletion: Result<(), E>) -> bool {
        match deletion {
            Ok(()) => {
                self.deleted += 1;
                self.consecutive_failures = 0;
            }
            Err(error) => {
                self.failed += 1;
                self.consecutive_failures += 1;
                self.error = Some(error);
            }
        }
        self.consecutive_failures < MAX_CONSECUTIVE_FAILURES
    }

    /// Ends the sweep, and returns the number of deleted objects.
    ///
    /// # Errors
    /// Returns the last error if an object could not be deleted.
    pub fn finish(self) -> Result<u64, E> {
        let Some(error) = self.error else {
            return Ok(self.deleted);
        };
        let (deleted, failed) = (self.deleted, self.failed);
        tracing::warn!(deleted, failed, "failed to delete unused objects");
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_stops_after_consecutive_failures() {
        let mut progress = SweepProgress::new();
        for deletion in [Err(1), Ok(()), Ok(())] {
            assert!(progress.record(deletion));
        }
        for number in 1..MAX_CONSECUTIVE_FAILURES {
            assert!(progress.record(Err(number)));
        }
        assert!(!progress.record(Err(10)));
        assert_eq!((progress.deleted, progress.failed), (2, 11));
        assert_eq!(progress.finish(), Err(10));
        let mut progress = SweepProgress::<u32>::new();
        assert!(progress.record(Ok(())));
        assert_eq!(progress.finish(), Ok(1));
    }
}
