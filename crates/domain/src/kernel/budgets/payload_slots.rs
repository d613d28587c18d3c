//! Limits the payloads of webhooks and external status checks that are in memory at the same time.

use std::time::Duration;

use git::{FairPermit, FairSemaphore, SemaphoreUsage};
use tokio::time::timeout;

use crate::kernel::error::{Error, Result};

/// Maximum number of payloads of a node. A payload has at most 25 MiB, and exists up to three times while it is built.
const MAX_PAYLOADS: usize = 4;
/// Maximum number of payloads of a user.
const MAX_PAYLOADS_OF_USER: usize = 2;
/// Maximum time that a request waits for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(10);
/// Payloads up to this size in bytes need a slot only until they are built.
pub const SMALL_PAYLOAD_BYTES: usize = 1 << 20;

/// A slot of a payload, until it is dropped.
pub type PayloadSlot = FairPermit;

/// Payload slots of this node.
#[derive(Debug)]
pub struct PayloadSlots(FairSemaphore<i64>);

impl Default for PayloadSlots {
    fn default() -> Self {
        Self(FairSemaphore::new(MAX_PAYLOADS, MAX_PAYLOADS_OF_USER))
    }
}

impl PayloadSlots {
    /// Returns the use of the slots.
    #[must_use]
    pub fn usage(&self) -> SemaphoreUsage {
        self.0.usage()
    }

    /// Waits for a slot of a user. Without a user only the limit of the node counts.
    ///
    /// # Errors
    /// Never fails in a running server.
    pub async fn acquire(&self, user_id: Option<i64>) -> Result<PayloadSlot> {
        self.0.acquire(user_id.as_ref()).await.map_err(Error::internal)
    }

    /// Waits for a slot of a user whose request waits. Returns `None`, and counts the refusal, if no slot becomes free
    /// in time.
    ///
    /// # Errors
    /// Returns the errors of [`Self::acquire`].
    pub async fn acquire_in_time(&self, user_id: i64) -> Result<Option<PayloadSlot>> {
        match timeout(SLOT_TIMEOUT, self.acquire(Some(user_id))).await {
            Ok(slot) => slot.map(Some),
            Err(_) => {
                self.0.count_refusal(Some(&user_id));
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn user_has_two_payload_slots_and_others_wait_for_all_four() {
        let slots = PayloadSlots::default();
        let take = |user_id| {
            let slot = slots.acquire(user_id).now_or_never();
            slot.map(|slot| slot.expect("a slot"))
        };
        let mut taken: Vec<PayloadSlot> = (0..3).filter_map(|_| take(Some(1))).collect();
        assert_eq!(taken.len(), MAX_PAYLOADS_OF_USER);
        taken.extend([take(None), take(Some(2))].into_iter().flatten());
        assert_eq!(taken.len(), MAX_PAYLOADS);
        assert!(take(Some(3)).is_none() && take(None).is_none());
        taken.clear();
        assert!(take(Some(3)).is_some());
        assert_eq!(slots.usage().used, 0);
    }
}
