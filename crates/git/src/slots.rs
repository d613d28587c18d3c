//! Limits on concurrent operations and on received requests, with a share for each client.

use std::sync::Arc;
use std::time::Duration;

use super::fair_semaphore::{FairPermit, FairSemaphore, SemaphoreUsage};
use super::{Error, Repository, Result};

/// Maximum number of concurrent programs that exchange data with clients. They mostly wait for the network, so they do
/// not use the slots of blocking work.
const MAX_TRANSFERS: usize = 64;
/// Maximum number of pushes that were started and have not ended. Most of them may wait for their clients.
const MAX_PUSHES: usize = 128;
/// Maximum number of such pushes of one client.
const MAX_PUSHES_OF_CLIENT: usize = 16;
/// How long a client waits for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);

/// Size of a request that needs no reservation, in bytes.
const FREE_BYTES: u64 = 4 << 10;
/// Size of the units in which space for larger requests is reserved, in bytes.
const UNIT_BYTES: u64 = 64 << 10;
/// Maximum number of units of all requests together (512 MiB).
const MAX_UNITS: usize = 8 << 10;

/// Client for which an operation runs. Each client gets only a share of the slots.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SlotHolder {
    /// The user with this ID.
    User(i64),
    /// An anonymous client with this network address.
    Address(Arc<str>),
    /// All anonymous clients whose address is unknown.
    Anonymous,
}

/// Slots of one kind.
pub(super) type Slots = Arc<FairSemaphore<SlotHolder>>;

/// The slots of a store.
pub(super) struct OperationSlots {
    /// Slots of blocking work, and of programs whose output is not streamed to a client.
    pub(super) work: Slots,
    /// Slots of programs that exchange data with clients.
    pub(super) transfers: Slots,
    /// Slots of pushes, from their start to their end.
    pushes: Slots,
    /// Units of space for requests that are received before a program reads them.
    space: Slots,
}

impl OperationSlots {
    /// Creates the slots of a store with a number of slots for blocking work.
    pub(super) fn new(work: usize) -> Self {
        Self {
            work: halves(work),
            transfers: halves(MAX_TRANSFERS),
            pushes: Arc::new(FairSemaphore::new(MAX_PUSHES, MAX_PUSHES_OF_CLIENT)),
            space: halves(MAX_UNITS),
        }
    }
}

impl OperationSlots {
    /// Returns the use of the slots.
    pub(super) fn usage(&self) -> SlotUsage {
        SlotUsage {
            work: self.work.usage(),
            transfers: self.transfers.usage(),
            pushes: self.pushes.usage(),
            requests: self.space.usage(),
        }
    }
}

/// Returns slots of which each client gets at most half.
fn halves(total: usize) -> Slots {
    Arc::new(FairSemaphore::new(total, (total / 2).max(1)))
}

/// Use of the slots of a store.
#[derive(Debug, Clone, Copy)]
pub struct SlotUsage {
    /// Blocking work, and programs whose output is not streamed to a client.
    pub work: SemaphoreUsage,
    /// Programs that exchange data with clients.
    pub transfers: SemaphoreUsage,
    /// Pushes, from their start to their end.
    pub pushes: SemaphoreUsage,
    /// Requests that are received before a program reads them, in units of 64 KiB.
    pub requests: SemaphoreUsage,
}

impl Repository {
    /// Waits for a slot of a kind.
    ///
    /// # Errors
    /// [`Error::Busy`] with a text after a while.
    pub(super) async fn slot(&self, slots: &Slots, busy: &'static str) -> Result<FairPermit> {
        let Ok(permit) = tokio::time::timeout(SLOT_TIMEOUT, slots.acquire(self.holder())).await else {
            slots.count_refusal(self.holder());
            return Err(Error::Busy(busy));
        };
        permit.map_err(|_| Error::Worker)
    }

    /// Waits for the slot of a push.
    ///
    /// # Errors
    /// [`Error::Busy`] after a while.
    pub(super) async fn push_slot(&self) -> Result<FairPermit> {
        self.slot(&self.shared().slots.pushes, "too many pushes are in progress")
            .await
    }

    /// Returns an empty reservation of space for a request.
    pub(super) fn request_space(&self) -> RequestSpace {
        RequestSpace {
            slots: Arc::clone(&self.shared().slots.space),
            holder: self.holder().cloned(),
            units: Vec::new(),
        }
    }
}

/// Space for a request in memory or in a temporary file, released on drop.
pub(super) struct RequestSpace {
    slots: Slots,
    holder: Option<SlotHolder>,
    units: Vec<FairPermit>,
}

impl RequestSpace {
    /// Reserves space for a request whose first `bytes` were received.
    ///
    /// # Errors
    /// [`Error::Busy`] if requests take too much space already.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<()> {
        if bytes <= FREE_BYTES {
            return Ok(());
        }
        while (self.units.len() as u64) < bytes.div_ceil(UNIT_BYTES) {
            let unit = self.slots.try_acquire(self.holder.as_ref());
            self.units
                .push(unit.ok_or(Error::Busy("too many large requests are in progress"))?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_repository::TestRepository;

    #[tokio::test]
    async fn large_requests_of_one_client_take_at_most_half_of_the_space() {
        let sample = TestRepository::empty();
        let user = |id| sample.repository.clone().on_behalf_of(SlotHolder::User(id));
        let mut first = user(1).request_space();
        first.reserve(MAX_UNITS as u64 / 2 * UNIT_BYTES).unwrap();
        let mut second = user(1).request_space();
        second.reserve(FREE_BYTES).unwrap();
        assert!(matches!(second.reserve(FREE_BYTES + 1), Err(Error::Busy(_))));
        let mut other = user(2).request_space();
        other.reserve(10 * UNIT_BYTES + 1).unwrap();
        assert_eq!(other.units.len(), 11);
        drop(first);
        second.reserve(FREE_BYTES + 1).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn pushes_of_one_client_are_limited() {
        let sample = TestRepository::empty();
        let user = |id| sample.repository.clone().on_behalf_of(SlotHolder::User(id));
        let mut slots = Vec::new();
        for _ in 0..MAX_PUSHES_OF_CLIENT {
            slots.push(user(1).push_slot().await.unwrap());
        }
        assert!(matches!(user(1).push_slot().await, Err(Error::Busy(_))));
        assert!(user(2).push_slot().await.is_ok());
        slots.pop();
        assert!(user(1).push_slot().await.is_ok());
    }
}
