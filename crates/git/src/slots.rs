//! Limits on concurrent operations and on received requests, with a share for each client.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

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

/// Size of a push that stays in memory and needs no reservation, in bytes.
const FREE_PUSH_BYTES: u64 = 64 << 10;
/// Size of the units in which disk space for larger pushes, and for responses, is reserved, in bytes.
const PUSH_UNIT_BYTES: u64 = 4 << 20;
/// Number of pushes of the maximum size for which there is disk space.
const MAX_LARGEST_PUSHES: u64 = 4;
/// Smallest disk space for pushes, in bytes.
const MIN_PUSH_SPACE_BYTES: u64 = 4 << 30;

/// Maximum number of responses whose rest is stored, because their clients read slowly.
const MAX_STORED_RESPONSES: usize = 128;
/// Maximum number of such responses of one client.
const MAX_STORED_RESPONSES_OF_CLIENT: usize = 16;

/// Client for which an operation runs. Each client gets only a share of the slots.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SlotHolder {
    /// The user with this ID.
    User(i64),
    /// The deploy token with this ID, which belongs to no user.
    DeployToken(i64),
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
    /// Units of disk space for pushes that are received.
    push_space: Slots,
    /// Slots of responses whose rest is stored.
    responses: Slots,
    /// Units of disk space for these responses.
    response_space: Slots,
}

impl OperationSlots {
    /// Creates the slots of a store with a number of slots for blocking work, and space for pushes of a maximum size.
    pub(super) fn new(work: usize, max_push_bytes: u64) -> Self {
        let space = max_push_bytes
            .saturating_mul(MAX_LARGEST_PUSHES)
            .max(MIN_PUSH_SPACE_BYTES);
        let disk_space = || {
            let units = usize::try_from(space.div_ceil(PUSH_UNIT_BYTES)).unwrap_or(usize::MAX);
            halves(units.min(Semaphore::MAX_PERMITS))
        };
        Self {
            work: halves(work),
            transfers: halves(MAX_TRANSFERS),
            pushes: Arc::new(FairSemaphore::new(MAX_PUSHES, MAX_PUSHES_OF_CLIENT)),
            space: halves(MAX_UNITS),
            push_space: disk_space(),
            responses: Arc::new(FairSemaphore::new(
                MAX_STORED_RESPONSES,
                MAX_STORED_RESPONSES_OF_CLIENT,
            )),
            response_space: disk_space(),
        }
    }

    /// Returns the use of the slots.
    pub(super) fn usage(&self) -> SlotUsage {
        SlotUsage {
            work: self.work.usage(),
            transfers: self.transfers.usage(),
            pushes: self.pushes.usage(),
            request_bytes: self.space.usage().in_bytes(UNIT_BYTES),
            push_bytes: self.push_space.usage().in_bytes(PUSH_UNIT_BYTES),
            responses: self.responses.usage(),
            response_bytes: self.response_space.usage().in_bytes(PUSH_UNIT_BYTES),
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
    /// Space for requests that are received before a program reads them, in bytes.
    pub request_bytes: SemaphoreUsage,
    /// Disk space for pushes that are received, in bytes.
    pub push_bytes: SemaphoreUsage,
    /// Responses whose rest is stored, because their clients read slowly.
    pub responses: SemaphoreUsage,
    /// Disk space for these responses, in bytes.
    pub response_bytes: SemaphoreUsage,
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
            free_bytes: FREE_BYTES,
            unit_bytes: UNIT_BYTES,
            busy: "too many large requests are in progress",
            units: Vec::new(),
        }
    }

    /// Returns an empty reservation of disk space for a push.
    pub(super) fn push_space(&self) -> RequestSpace {
        RequestSpace {
            slots: Arc::clone(&self.shared().slots.push_space),
            holder: self.holder().cloned(),
            free_bytes: FREE_PUSH_BYTES,
            unit_bytes: PUSH_UNIT_BYTES,
            busy: "too many large pushes are in progress",
            units: Vec::new(),
        }
    }

    /// Returns a slot of a stored response, and an empty reservation of its disk space, if a slot is available now.
    pub(super) fn try_response_space(&self) -> Option<(FairPermit, RequestSpace)> {
        let slots = &self.shared().slots;
        let slot = slots.responses.try_acquire(self.holder())?;
        let space = RequestSpace {
            slots: Arc::clone(&slots.response_space),
            holder: self.holder().cloned(),
            free_bytes: FREE_PUSH_BYTES,
            unit_bytes: PUSH_UNIT_BYTES,
            busy: "too many responses wait for their clients",
            units: Vec::new(),
        };
        Some((slot, space))
    }
}

/// Space for a request in memory or in a temporary file, released on drop.
pub(super) struct RequestSpace {
    slots: Slots,
    holder: Option<SlotHolder>,
    /// Size of a request that needs no reservation.
    free_bytes: u64,
    unit_bytes: u64,
    /// Text of the error if there is no space.
    busy: &'static str,
    units: Vec<FairPermit>,
}

impl RequestSpace {
    /// Reserves space for a request whose first `bytes` were received.
    ///
    /// # Errors
    /// [`Error::Busy`] if requests take too much space already.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<()> {
        if bytes <= self.free_bytes {
            return Ok(());
        }
        while (self.units.len() as u64) < bytes.div_ceil(self.unit_bytes) {
            let unit = self.slots.try_acquire(self.holder.as_ref());
            self.units.push(unit.ok_or(Error::Busy(self.busy))?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DEFAULT_MAX_PUSH_BYTES;
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

    #[tokio::test]
    async fn large_pushes_of_one_client_take_at_most_half_of_the_disk_space() {
        let sample = TestRepository::empty();
        let user = |id| sample.repository.clone().on_behalf_of(SlotHolder::User(id));
        let half = DEFAULT_MAX_PUSH_BYTES * MAX_LARGEST_PUSHES / 2;
        let mut first = user(1).push_space();
        first.reserve(half).unwrap();
        assert!(matches!(first.reserve(half + 1), Err(Error::Busy(_))));
        let mut second = user(1).push_space();
        second.reserve(FREE_PUSH_BYTES).unwrap();
        assert!(matches!(second.reserve(FREE_PUSH_BYTES + 1), Err(Error::Busy(_))));
        user(2).push_space().reserve(half).unwrap();
        drop(first);
        second.reserve(FREE_PUSH_BYTES + 1).unwrap();
    }

    #[test]
    fn small_maximum_size_of_a_push_leaves_space_for_many_pushes() {
        let total = |max_push_bytes| OperationSlots::new(1, max_push_bytes).push_space.usage().total;
        assert_eq!(total(1 << 20), 1024);
        assert_eq!(total(2 << 30), 2048);
        assert!(total(u64::MAX) > 1 << 40);
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
