//! Shares of the updates of mirrors that run in a process at the same time. Remote repositories may be slow, and the
//! mirrors of one project or user must not delay all others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt;

/// Maximum number of updates of a project in one direction that run at the same time.
const MAX_UPDATES_PER_PROJECT: usize = 1;
/// Maximum number of updates of a user in one direction that run at the same time. The server runs more.
const MAX_UPDATES_PER_USER: usize = 3;
/// Maximum delay of an update of a project that has no share left.
const PROJECT_DELAY: Duration = Duration::from_secs(5);
/// The same for a user, who can have many mirrors. Each attempt writes to the database.
const USER_DELAY: Duration = Duration::from_secs(30);

/// Direction of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateDirection {
    /// The project is pushed to a remote mirror.
    Push,
    /// The project fetches from a pull mirror.
    Pull,
}

/// An update of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorUpdate {
    /// The direction.
    pub direction: UpdateDirection,
    /// The project.
    pub project_id: i64,
    /// The user that the update is attributed to.
    pub user_id: Option<i64>,
}

/// The project or the user has no share left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareExceeded {
    /// When the update should be tried again. The delay is random, so that updates that wait are not tried at the same
    /// moment.
    pub delay: Duration,
}

/// The updates that run. Clones refer to the same updates.
#[derive(Debug, Clone, Default)]
pub(super) struct UpdateShares(Arc<Mutex<Vec<MirrorUpdate>>>);

/// A share, until it is dropped.
#[derive(Debug)]
pub struct UpdateShare {
    shares: UpdateShares,
    update: MirrorUpdate,
}

impl UpdateShares {
    /// Takes a share for an update.
    pub(super) fn take(&self, update: MirrorUpdate) -> Result<UpdateShare, ShareExceeded> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same: Vec<&MirrorUpdate> = running
            .iter()
            .filter(|other| other.direction == update.direction)
            .collect();
        let of_project = same.iter().filter(|other| other.project_id == update.project_id);
        if of_project.count() >= MAX_UPDATES_PER_PROJECT {
            return Err(ShareExceeded::after(PROJECT_DELAY));
        }
        let of_user = same.iter().filter(|other| other.user_id == update.user_id);
        if update.user_id.is_some() && of_user.count() >= MAX_UPDATES_PER_USER {
            return Err(ShareExceeded::after(USER_DELAY));
        }
        running.push(update);
        Ok(UpdateShare {
            shares: self.clone(),
            update,
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

impl Drop for UpdateShare {
    fn drop(&mut self) {
        let mut running = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = running.iter().position(|update| *update == self.update) {
            running.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(project_id: i64, user_id: Option<i64>) -> MirrorUpdate {
        MirrorUpdate {
            direction: UpdateDirection::Push,
            project_id,
            user_id,
        }
    }

    #[test]
    fn project_has_one_share_and_user_has_three_in_each_direction() {
        let shares = UpdateShares::default();
        let delay = |update| shares.take(update).expect_err("no share").delay;
        let first = shares.take(push(1, Some(7))).expect("a share");
        assert!(delay(push(1, Some(8))) <= PROJECT_DELAY);
        let others: Vec<UpdateShare> = [2, 3]
            .map(|project| shares.take(push(project, Some(7))).expect("a share"))
            .into();
        assert!(delay(push(4, Some(7))) >= USER_DELAY / 2);
        let pull = MirrorUpdate {
            direction: UpdateDirection::Pull,
            ..push(1, Some(7))
        };
        let pull = shares.take(pull).expect("a share");
        drop(first);
        let again = shares.take(push(1, Some(7))).expect("a share");
        assert!(shares.take(push(4, Some(7))).is_err());
        drop((others, pull, again));
        // A project whose creator was deleted counts for no user.
        let unowned: Vec<UpdateShare> = (1..9)
            .map(|project| shares.take(push(project, None)).expect("a share"))
            .collect();
        assert!(shares.take(push(1, None)).is_err());
        drop(unowned);
        assert!(shares.take(push(1, None)).is_ok());
    }
}
