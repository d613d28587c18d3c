//! Limits the payloads of webhooks and external status checks that are in memory at the same time.

use std::sync::Arc;
use std::time::Duration;

use git::{FairPermit, FairSemaphore, SemaphoreUsage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::kernel::error::{Error, Result};

/// Maximum number of payloads of a node that are built or sent. A payload has at most 25 MiB.
const MAX_PAYLOADS: usize = 12;
/// Maximum number of payloads of a user.
const MAX_PAYLOADS_OF_USER: usize = 2;
/// Maximum number of payloads of a node that are built. A payload exists up to three times while it is built.
const MAX_BUILT_PAYLOADS: usize = 4;
/// Maximum time that a request waits for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(10);
/// Payloads up to this size in bytes need a slot only until they are built.
pub const SMALL_PAYLOAD_BYTES: usize = 1 << 20;

/// Whose share a payload uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadHolder {
    /// A user.
    User(i64),
    /// A project whose creator was deleted.
    Project(i64),
}

/// Slot of a payload that is built, until it is dropped.
#[derive(Debug)]
pub struct PayloadSlot {
    /// Allows to build the payload.
    _building: OwnedSemaphorePermit,
    payload: FairPermit,
}

/// Slot of a large payload that is sent, until it is dropped.
#[derive(Debug)]
pub struct SentPayloadSlot {
    _payload: FairPermit,
}

/// Payload slots of this node.
#[derive(Debug)]
pub struct PayloadSlots {
    payloads: FairSemaphore<PayloadHolder>,
    building: Arc<Semaphore>,
}

impl Default for PayloadSlots {
    fn default() -> Self {
        Self {
            payloads: FairSemaphore::new(MAX_PAYLOADS, MAX_PAYLOADS_OF_USER),
            building: Arc::new(Semaphore::new(MAX_BUILT_PAYLOADS)),
        }
    }
}

impl PayloadSlot {
    /// Releases the slot after a payload of `size` bytes is built. While a receiver is slow, a small payload needs no
    /// slot, and a large one does not prevent others from being built.
    #[must_use]
    pub fn built(self, size: usize) -> Option<SentPayloadSlot> {
        let payload = self.payload;
        (size > SMALL_PAYLOAD_BYTES).then_some(SentPayloadSlot { _payload: payload })
    }
}

impl PayloadSlots {
    /// Returns the use of the slots.
    #[must_use]
    pub fn usage(&self) -> SemaphoreUsage {
        self.payloads.usage()
    }

    /// Waits for a slot to build a payload.
    ///
    /// # Errors
    /// Never fails in a running server.
    pub async fn acquire(&self, holder: PayloadHolder) -> Result<PayloadSlot> {
        // The size is not known yet. If the slot for sending were taken last, payloads would occupy the slots for
        // building while they wait for it.
        let payload = self.payloads.acquire(Some(&holder)).await;
        let payload = payload.map_err(Error::internal)?;
        let building = Arc::clone(&self.building).acquire_owned().await;
        Ok(PayloadSlot {
            _building: building.map_err(Error::internal)?,
            payload,
        })
    }

    /// Waits for a slot of a user whose request waits. Returns `None`, and counts the refusal, if no slot becomes free
    /// in time.
    ///
    /// # Errors
    /// Returns the errors of [`Self::acquire`].
    pub async fn acquire_in_time(&self, user_id: i64) -> Result<Option<PayloadSlot>> {
        let holder = PayloadHolder::User(user_id);
        match timeout(SLOT_TIMEOUT, self.acquire(holder)).await {
            Ok(slot) => slot.map(Some),
            Err(_) => {
                self.payloads.count_refusal(Some(&holder));
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::PayloadHolder::{Project, User};
    use super::*;

    const LARGE: usize = SMALL_PAYLOAD_BYTES + 1;

    fn take(slots: &PayloadSlots, holder: PayloadHolder) -> Option<PayloadSlot> {
        let slot = slots.acquire(holder).now_or_never();
        slot.map(|slot| slot.expect("a slot"))
    }

    #[test]
    fn user_or_project_has_two_payload_slots_and_others_wait_for_all_four() {
        let slots = PayloadSlots::default();
        let mut taken: Vec<PayloadSlot> = (0..3).filter_map(|_| take(&slots, User(1))).collect();
        assert_eq!(taken.len(), MAX_PAYLOADS_OF_USER);
        taken.extend((0..3).filter_map(|_| take(&slots, Project(1))));
        assert_eq!(taken.len(), MAX_BUILT_PAYLOADS);
        assert!(take(&slots, User(3)).is_none());
        taken.clear();
        assert!(take(&slots, User(3)).is_some());
        assert_eq!(slots.usage().used, 0);
    }

    #[test]
    fn large_payloads_that_are_sent_do_not_prevent_others_from_being_built() {
        let slots = PayloadSlots::default();
        let send = |holder| take(&slots, holder).and_then(|slot| slot.built(LARGE));
        let mut sent: Vec<SentPayloadSlot> =
            [1, 2, 1, 2].into_iter().filter_map(|id| send(User(id))).collect();
        assert_eq!(sent.len(), 4);
        // The users have no share left, and others can build as many payloads as before.
        assert!(take(&slots, User(1)).is_none());
        let others: Vec<PayloadSlot> = (3..8).filter_map(|id| take(&slots, User(id))).collect();
        assert_eq!(others.len(), MAX_BUILT_PAYLOADS);
        drop(others);
        sent.extend((3..12).flat_map(|id| [send(User(id)), send(User(id))]).flatten());
        assert_eq!((sent.len(), slots.usage().used), (MAX_PAYLOADS, MAX_PAYLOADS));
        assert!(take(&slots, Project(9)).is_none());
        sent.pop();
        let small = take(&slots, Project(9)).map(|slot| slot.built(SMALL_PAYLOAD_BYTES).is_none());
        assert_eq!((small, slots.usage().used), (Some(true), MAX_PAYLOADS - 1));
    }
}
