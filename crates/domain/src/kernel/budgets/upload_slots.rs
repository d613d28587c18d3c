//! Limits concurrent uploads of blobs and package files per node and per client.

use std::time::Duration;

use git::{FairPermit, FairSemaphore, SemaphoreUsage, SlotHolder};
use tokio::sync::AcquireError;
use tokio::time::timeout;

/// Maximum number of uploads on a node. Each uses a few megabytes.
const MAX_PER_NODE: usize = 128;
/// Maximum number of uploads of a user or deploy token; programs push a few layers of an image in parallel.
const MAX_PER_CLIENT: usize = 16;
/// Maximum time that an upload waits for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);

/// A slot of an upload, until it is dropped.
pub type UploadSlot = FairPermit;

/// Upload slots of this node.
#[derive(Debug)]
pub struct UploadSlots(FairSemaphore<SlotHolder>);

impl Default for UploadSlots {
    fn default() -> Self {
        Self(FairSemaphore::new(MAX_PER_NODE, MAX_PER_CLIENT))
    }
}

impl UploadSlots {
    /// Returns the use of the slots.
    #[must_use]
    pub fn usage(&self) -> SemaphoreUsage {
        self.0.usage()
    }

    /// Waits for an upload slot. Returns `None`, and counts the refusal, if no slot becomes free in time.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub async fn acquire_in_time(&self, client: &SlotHolder) -> Result<Option<FairPermit>, AcquireError> {
        match timeout(SLOT_TIMEOUT, self.acquire(client)).await {
            Ok(slot) => slot.map(Some),
            Err(_) => {
                self.0.count_refusal(Some(client));
                Ok(None)
            }
        }
    }

    /// Waits for an upload slot.
    ///
    /// # Errors
    /// Never fails, because the semaphores are never closed.
    async fn acquire(&self, client: &SlotHolder) -> Result<FairPermit, AcquireError> {
        self.0.acquire(Some(client)).await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn one_client_cannot_take_all_upload_slots() {
        let slots = UploadSlots::default();
        let take = |user_id| {
            slots
                .acquire(&SlotHolder::User(user_id))
                .now_or_never()
                .map(|slot| slot.expect("a slot"))
        };
        let mut slots_in_use: Vec<FairPermit> = (0..MAX_PER_CLIENT).filter_map(|_| take(1)).collect();
        assert_eq!(slots_in_use.len(), MAX_PER_CLIENT);
        assert!(take(1).is_none());
        slots_in_use.pop();
        slots_in_use.extend(take(1));
        assert_eq!(slots_in_use.len(), MAX_PER_CLIENT);
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
        assert_eq!(slots_in_use.len(), 1);
    }
}
