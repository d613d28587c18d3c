//! Numbers of fetches that are not recorded in the database yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::NaiveDate;

/// Numbers of fetches by project and day.
pub type FetchCounts = Vec<((i64, NaiveDate), i64)>;

/// Counts fetches in memory.
#[derive(Debug, Default)]
pub struct FetchCounter {
    state: Mutex<CounterState>,
}

#[derive(Debug, Default)]
struct CounterState {
    counts: HashMap<(i64, NaiveDate), i64>,
    /// Whether a task will record the counts.
    is_scheduled: bool,
}

impl FetchCounter {
    fn state(&self) -> MutexGuard<'_, CounterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a fetch. Returns whether the caller has to schedule the recording.
    pub(crate) fn add(&self, project_id: i64, day: NaiveDate) -> bool {
        let mut state = self.state();
        *state.counts.entry((project_id, day)).or_default() += 1;
        !std::mem::replace(&mut state.is_scheduled, true)
    }

    /// Removes and returns the counts. If `ends_schedule` is true, the next fetch schedules another recording. The counts are
    /// sorted, because nodes that lock the same rows in different orders can deadlock.
    pub(crate) fn take(&self, ends_schedule: bool) -> FetchCounts {
        let mut state = self.state();
        state.is_scheduled &= !ends_schedule;
        let mut counts: FetchCounts = state.counts.drain().collect();
        counts.sort_unstable();
        counts
    }

    /// Adds counts that could not be recorded.
    pub(crate) fn restore(&self, counts: FetchCounts) {
        let mut state = self.state();
        for (key, count) in counts {
            *state.counts.entry(key).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fetch_schedules_and_restored_counts_are_added() {
        let counter = FetchCounter::default();
        let day = NaiveDate::MIN;
        assert!(counter.add(1, day));
        assert!(!counter.add(1, day));
        assert!(!counter.add(2, day));
        let taken = counter.take(false);
        assert_eq!(taken, [((1, day), 2), ((2, day), 1)]);
        assert!(!counter.add(1, day), "a task is scheduled already");
        counter.restore(taken);
        let taken = counter.take(true);
        assert_eq!(taken, [((1, day), 3), ((2, day), 1)]);
        assert!(counter.add(1, day));
    }

    #[test]
    fn taken_counts_are_sorted_by_project() {
        let counter = FetchCounter::default();
        for project_id in (1..=50).rev() {
            counter.add(project_id, NaiveDate::MIN);
        }
        assert!(counter.take(false).is_sorted());
    }
}
