//! Shares of work that runs in a process at the same time and waits for other servers. Other servers may be slow, and
//! the work of one project or user must not delay the work of all others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt;

/// Limits of one kind of work.
#[derive(Debug, Clone, Copy)]
pub struct WorkLimits {
    /// Maximum of a project.
    pub per_project: usize,
    /// Maximum of a user.
    pub per_user: usize,
    /// Maximum delay of work of a project that has no share left.
    pub project_delay: Duration,
    /// The same for a user.
    pub user_delay: Duration,
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
    running: Arc<Mutex<Vec<Work>>>,
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
            running: Arc::default(),
        }
    }

    /// Takes a share for work of a project that is attributed to a user.
    ///
    /// # Errors
    /// Returns `ShareExceeded` if too much work of the project or the user runs.
    pub fn take(&self, project_id: i64, user_id: Option<i64>) -> Result<WorkShare, ShareExceeded> {
        let work = Work { project_id, user_id };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let of_project = running.iter().filter(|other| other.project_id == project_id);
        if of_project.count() >= self.limits.per_project {
            return Err(ShareExceeded::after(self.limits.project_delay));
        }
        let of_user = running.iter().filter(|other| other.user_id == user_id);
        if user_id.is_some() && of_user.count() >= self.limits.per_user {
            return Err(ShareExceeded::after(self.limits.user_delay));
        }
        running.push(work);
        Ok(WorkShare {
            shares: self.clone(),
            work,
        })
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
        let mut running = self.shares.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = running.iter().position(|work| *work == self.work) {
            running.swap_remove(index);
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
}
