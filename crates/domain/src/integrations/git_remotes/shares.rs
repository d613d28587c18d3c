//! Shares of the updates of mirrors that run in a process at the same time, in each direction, and of the imports of
//! projects.

use std::time::Duration;

use crate::integrations::work_shares::{ShareExceeded, WorkLimits, WorkShare, WorkShares};

/// Maximum number of updates of a project in one direction that run at the same time.
const MAX_UPDATES_PER_PROJECT: usize = 1;
/// Maximum number of updates of a user in one direction that run at the same time. The server runs more.
const MAX_UPDATES_PER_USER: usize = 3;
/// Maximum number of imports of a user that run at the same time. The server runs more.
const MAX_IMPORTS_PER_USER: usize = 1;
const LIMITS: WorkLimits = WorkLimits {
    per_project: MAX_UPDATES_PER_PROJECT,
    per_user: MAX_UPDATES_PER_USER,
    project_delay: Duration::from_secs(5),
    // A user can have many mirrors, and each attempt writes to the database.
    user_delay: Duration::from_secs(30),
};
const IMPORT_LIMITS: WorkLimits = WorkLimits {
    per_user: MAX_IMPORTS_PER_USER,
    // A user may wait for the imports, which are run only once.
    user_delay: Duration::from_secs(5),
    ..LIMITS
};

/// Direction of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateDirection {
    /// The project is pushed to a remote mirror.
    Push,
    /// The project fetches from a pull mirror.
    Pull,
    /// The project is new, and fetches from the URL that it is imported from.
    Import,
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

/// The updates that run. Clones refer to the same updates.
#[derive(Debug, Clone)]
pub(super) struct UpdateShares {
    pushes: WorkShares,
    pulls: WorkShares,
    imports: WorkShares,
}

impl Default for UpdateShares {
    fn default() -> Self {
        Self {
            pushes: WorkShares::new(LIMITS),
            pulls: WorkShares::new(LIMITS),
            imports: WorkShares::new(IMPORT_LIMITS),
        }
    }
}

impl UpdateShares {
    /// Takes a share for an update.
    pub(super) fn take(&self, update: MirrorUpdate) -> Result<WorkShare, ShareExceeded> {
        let shares = match update.direction {
            UpdateDirection::Push => &self.pushes,
            UpdateDirection::Pull => &self.pulls,
            UpdateDirection::Import => &self.imports,
        };
        shares.take(update.project_id, update.user_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_have_their_own_shares() {
        let shares = UpdateShares::default();
        let take = |direction| {
            shares.take(MirrorUpdate {
                direction,
                project_id: 1,
                user_id: Some(7),
            })
        };
        let push = take(UpdateDirection::Push).expect("a share");
        assert!(take(UpdateDirection::Push).is_err());
        assert!(take(UpdateDirection::Pull).is_ok());
        drop(push);
        assert!(take(UpdateDirection::Push).is_ok());
    }

    #[test]
    fn user_imports_one_project_and_updates_mirrors_meanwhile() {
        let shares = UpdateShares::default();
        let take = |direction, project_id, user_id| {
            shares.take(MirrorUpdate {
                direction,
                project_id,
                user_id: Some(user_id),
            })
        };
        let import = take(UpdateDirection::Import, 1, 7).expect("a share");
        assert!(take(UpdateDirection::Import, 2, 7).is_err());
        assert!(take(UpdateDirection::Import, 2, 8).is_ok());
        let pulls = [2, 3, 4].map(|project_id| take(UpdateDirection::Pull, project_id, 7).expect("a share"));
        drop(import);
        assert!(take(UpdateDirection::Import, 2, 7).is_ok());
        drop(pulls);
    }
}
