//! Limits concurrent blob uploads per node and per user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Maximum number of uploads on a node. Each uses a few megabytes.
const MAX_PER_NODE: usize = 128;
/// Maximum number of uploads of a user; clients push a few layers of an image in parallel.
const MAX_PER_USER: usize = 16;

/// Upload slots of this node.
#[derive(Debug)]
pub struct UploadSlots {
    all: Arc<Semaphore>,
    of_users: Mutex<HashMap<Option<i64>, Weak<Semaphore>>>,
}

/// An upload slot, released on drop.
#[derive(Debug)]
pub struct UploadSlot {
    _of_user: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Default for UploadSlots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_PER_NODE)),
            of_users: Mutex::default(),
        }
    }
}

impl UploadSlots {
    /// Waits for an upload slot. Anonymous users count as one.
    ///
    /// # Errors
    /// Never fails, because the semaphores are never closed.
    pub async fn acquire(&self, user_id: Option<i64>) -> Result<UploadSlot, AcquireError> {
        // The user's semaphore first, so that a user who waits for it takes no common slot.
        let of_user = self.of_user(user_id).acquire_owned().await?;
        let of_all = Arc::clone(&self.all).acquire_owned().await?;
        Ok(UploadSlot {
            _of_user: of_user,
            _of_all: of_all,
        })
    }

    fn of_user(&self, user_id: Option<i64>) -> Arc<Semaphore> {
        let mut of_users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = of_users.get(&user_id).and_then(Weak::upgrade) {
            return known;
        }
        // Remove the semaphores that are no longer in use.
        of_users.retain(|_, known| known.strong_count() > 0);
        let own = Arc::new(Semaphore::new(MAX_PER_USER));
        of_users.insert(user_id, Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn one_user_cannot_take_all_upload_slots() {
        let slots = UploadSlots::default();
        let take = |user_id| {
            slots
                .acquire(Some(user_id))
                .now_or_never()
                .map(|slot| slot.expect("a slot"))
        };
        let mut slots_in_use: Vec<UploadSlot> = (0..MAX_PER_USER).filter_map(|_| take(1)).collect();
        assert_eq!(slots_in_use.len(), MAX_PER_USER);
        assert!(take(1).is_none());
        slots_in_use.pop();
        slots_in_use.extend(take(1));
        assert_eq!(slots_in_use.len(), MAX_PER_USER);
        // Seven more users take the remaining slots.
        slots_in_use.extend(
            (2..100)
                .flat_map(|user_id| [take(user_id), take(user_id)])
                .flatten(),
        );
        assert_eq!(slots_in_use.len(), MAX_PER_NODE);
        assert!(take(100).is_none());
        slots_in_use.clear();
        slots_in_use.extend(take(100));
        assert_eq!(
            (slots_in_use.len(), slots.of_users.lock().expect("users").len()),
            (1, 1)
        );
    }
}
