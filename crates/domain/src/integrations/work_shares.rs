//! Shares of work that runs in a process at the same time and waits for other servers. Other servers may be slow, and
//! the work of one project or user must not delay the work of all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;

/// Time between two attempts of the waiting work of a project or a user. Each attempt writes to the database, so the
/// delay grows with the amount of waiting work.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum delay of waiting work.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Limits of one kind of work.
#[derive(Debug, Clone, Copy)]
pub struct WorkLimits {
    /// Maximum of a project.
    pub per_project: usize,
    /// Maximum of a user.
    pub per_user: usize,
    /// Maximum delay of work of a project that has no share left, if no other work of the project waits.
    pub project_delay: Duration,
    /// The same for a user.
    pub user_delay: Duration,
}

/// A project or a user without a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    Project(i64),
    User(i64),
}

/// Work of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    project_id: i64,
    user_id: Option<i64>,
}

/// The project or the user has no share left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareExceeded {
    /// When the work should be tried again. The delay is random, so that work that waits is not tried at the same
    /// moment.
    pub delay: Duration,
}

/// The work of one kind that runs. Clones refer to the same work.
#[derive(Debug, Clone)]
pub struct WorkShares {
    limits: WorkLimits,
    state: Arc<Mutex<ShareState>>,
}

#[derive(Debug, Default)]
struct ShareState {
    running: Vec<Work>,
    /// Until when work that was refused is tried again. Contains the holders without a share.
    retries: HashMap<Holder, Instant>,
}

/// A share, until it is dropped.
#[derive(Debug)]
pub struct WorkShare {
    shares: WorkShares,
    work: Work,
}

impl WorkShares {
    /// Creates shares with these limits.
    #[must_use]
    pub fn new(limits: WorkLimits) -> Self {
        Self {
            limits,
            state: Arc::default(),
        }
    }

    /// Takes a share for work of a project that is attributed to a user.
    ///
    /// # Errors
    /// Returns `ShareExceeded` if too much work of the project or the user runs.
    pub fn take(&self, project_id: i64, user_id: Option<i64>) -> Result<WorkShare, ShareExceeded> {
        let work = Work { project_id, user_id };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let of_project = state
            .running
            .iter()
            .filter(|other| other.project_id == project_id);
        if of_project.count() >= self.limits.per_project {
            return Err(state.refuse(Holder::Project(project_id), self.limits.project_delay));
        }
        if let Some(user_id) = user_id {
            let of_user = state
                .running
                .iter()
                .filter(|other| other.user_id == Some(user_id));
            if of_user.count() >= self.limits.per_user {
                return Err(state.refuse(Holder::User(user_id), self.limits.user_delay));
            }
        }
        state.running.push(work);
        Ok(WorkShare {
            shares: self.clone(),
            work,
        })
    }
}

impl ShareState {
    /// Returns when the work of a holder is tried again, after the other work of the holder that was refused before.
    fn refuse(&mut self, holder: Holder, delay: Duration) -> ShareExceeded {
        let now = Instant::now();
        self.retries.retain(|_, until| *until > now);
        let until = self.retries.entry(holder).or_insert(now);
        let waiting = until.saturating_duration_since(now);
        *until = now + MAX_DELAY.min(waiting + RETRY_INTERVAL);
        ShareExceeded::after(MAX_DELAY.min(delay + waiting))
    }
}

impl ShareExceeded {
    /// Returns a delay between half of this one and all of it.
    fn after(delay: Duration) -> Self {
        Self {
            delay: delay.mul_f64(rand::rng().random_range(0.5..=1.0)),
        }
    }
}

impl Drop for WorkShare {
    fn drop(&mut self) {
        let mut state = self.shares.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = state.running.iter().position(|work| *work == self.work) {
            state.running.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_and_user_have_their_shares() {
        let limits = WorkLimits {
            per_project: 1,
            per_user: 3,
            project_delay: Duration::from_secs(5),
            user_delay: Duration::from_secs(30),
        };
        let shares = WorkShares::new(limits);
        let delay = |project, user| shares.take(project, user).expect_err("no share").delay;
        let first = shares.take(1, Some(7)).expect("a share");
        assert!(delay(1, Some(8)) <= limits.project_delay);
        let others = [2, 3].map(|project| shares.take(project, Some(7)).expect("a share"));
        assert!(delay(4, Some(7)) >= limits.user_delay / 2);
        drop(first);
        let again = shares.take(1, Some(7)).expect("a share");
        assert!(shares.take(4, Some(7)).is_err());
        drop(again);
        drop(others);
        // A project whose creator was deleted counts for no user.
        let unowned: Vec<WorkShare> = (1..9)
            .map(|project| shares.take(project, None).expect("a share"))
            .collect();
        assert!(shares.take(1, None).is_err());
        drop(unowned);
        assert!(shares.take(1, None).is_ok());
    }

    #[test]
    fn delay_grows_with_the_waiting_work_of_the_project_or_user() {
        let limits = WorkLimits {
            per_project: 1,
            per_user: 2,
            project_delay: Duration::from_secs(2),
            user_delay: Duration::from_secs(5),
        };
        let shares = WorkShares::new(limits);
        let delay = |project, user| shares.take(project, user).expect_err("no share").delay;
        let _running = [1, 2].map(|project| shares.take(project, Some(7)).expect("a share"));
        let of_project: Vec<Duration> = (0..1_000).map(|_| delay(1, Some(7))).collect();
        assert!(of_project[0] <= limits.project_delay);
        assert!(of_project[999] >= MAX_DELAY / 2);
        assert!(of_project.iter().all(|delay| *delay <= MAX_DELAY));
        // Other work does not wait for it.
        assert!(delay(2, Some(7)) <= limits.project_delay);
        assert!(delay(3, Some(7)) <= limits.user_delay);
        let of_user: Vec<Duration> = (0..1_000).map(|project| delay(100 + project, Some(7))).collect();
        assert!(of_user[999] >= MAX_DELAY / 2 && of_user.iter().all(|delay| *delay <= MAX_DELAY));
    }
}
