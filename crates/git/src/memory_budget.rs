//! Budget for the memory of all running `git` programs.
//!
//! A program waits until its reservation fits into the budget. The kernel limits the memory of each of its processes to
//! the reservation, so all programs together stay below the budget (`docs/adr/0035-bound-the-memory-of-git.md`).

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::fair_semaphore::{FairPermit, FairSemaphore, SemaphoreUsage};
use super::object_memory::{self, PackProfile};
use super::slots::SlotHolder;
use super::{Error, OBJECT_TOO_LARGE, Repository, Result};

/// Default of the budget, in bytes.
pub const DEFAULT_GIT_MEMORY_BYTES: u64 = 1 << 30;

/// Size of the units of the budget, in bytes.
const UNIT_BYTES: u64 = 4 << 20;
/// Memory of a program that reads references and commits, in bytes.
const SMALL_BYTES: u64 = 32 << 20;
/// Memory of a program that compares files or merges them, in bytes.
const FILES_BYTES: u64 = 128 << 20;
/// Memory of a program without the objects that it reads, in bytes.
const PROGRAM_BYTES: u64 = 12 << 20;
/// Memory of the process that negotiates with the client of a fetch, without the objects that it reads, in bytes.
const NEGOTIATION_BYTES: u64 = 4 << 20;
/// Memory of a push in addition to its largest object, in bytes.
const PUSH_MARGIN_BYTES: u64 = 32 << 20;
/// Memory of the caches that programs have by `FIXED_CONFIG`, in bytes. They contain at most all small objects.
const CACHE_BYTES: u64 = 48 << 20;
/// Memory for comparing files of up to 16 MiB, in bytes.
const COMPRESSION_BYTES: u64 = 96 << 20;
/// Memory for each object of a pack that is written, in bytes.
const BYTES_PER_OBJECT: u64 = 256;
/// Largest part of the budget that one program gets: a half, the share of a client.
const MAX_PROGRAM_PART: u64 = 2;
/// Part of the budget that a push gets.
const PUSH_PART: u64 = 4;
/// How long a program waits for memory.
const WAIT_LIMIT: Duration = Duration::from_secs(30);
/// How long a program waits before the programs that were started early release their memory.
const EARLY_PROGRAMS_KEEP: Duration = Duration::from_millis(100);

/// Memory that a program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryNeed {
    /// It reads references and commits.
    Small,
    /// It compares files, or merges them.
    Files,
    /// It reads one object, which takes this many bytes.
    Object(u64),
    /// It reads any objects of the repository, and may write a pack of them.
    Repository,
    /// As [`Self::Repository`], with a second process that negotiates with the client.
    Fetch,
    /// It compresses or checks the objects of the repository.
    Maintenance,
    /// It receives a pack of a client.
    Push,
    /// It copies a repository that an operator has chosen.
    Import,
}

/// The budget of a store.
pub(super) struct MemoryBudget {
    units: Arc<FairSemaphore<SlotHolder>>,
    total_bytes: u64,
    /// Notified while a program waits for memory.
    wanted: Notify,
}

impl MemoryBudget {
    /// Creates a budget, of which each client gets at most half.
    pub(super) fn new(total_bytes: u64) -> Self {
        let total_bytes = total_bytes.max(PUSH_PART * FILES_BYTES);
        let units = usize::try_from(total_bytes / UNIT_BYTES).unwrap_or(usize::MAX);
        Self {
            units: Arc::new(FairSemaphore::new(units, units / 2)),
            total_bytes,
            wanted: Notify::new(),
        }
    }

    /// Returns the use of the budget in bytes.
    pub(super) fn usage(&self) -> SemaphoreUsage {
        self.units.usage().in_bytes(UNIT_BYTES)
    }

    /// Waits until a program has waited for memory for a moment.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Returns the maximum memory of one program in bytes.
    pub(super) fn max_program_bytes(&self) -> u64 {
        self.total_bytes / MAX_PROGRAM_PART
    }

    /// Returns the largest allocation of a program, which for a push is the largest object that is not a streamed file.
    fn max_allocation(&self, need: MemoryNeed) -> Option<u64> {
        (need == MemoryNeed::Push).then(|| self.total_bytes / PUSH_PART - PUSH_MARGIN_BYTES)
    }

    /// Returns the memory of a program in bytes, a multiple of the unit.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] for an object that takes more than a program may.
    fn bytes(&self, need: MemoryNeed, profile: PackProfile) -> Result<u64> {
        let highest = self.max_program_bytes();
        let repository = profile
            .max_bytes
            .saturating_add(profile.objects.saturating_mul(BYTES_PER_OBJECT))
            .saturating_add(profile.small_bytes.min(CACHE_BYTES))
            .saturating_add(PROGRAM_BYTES);
        let bytes = match need {
            MemoryNeed::Small => SMALL_BYTES,
            MemoryNeed::Files => FILES_BYTES,
            MemoryNeed::Object(bytes) => {
                let bytes = bytes.saturating_add(PROGRAM_BYTES);
                if bytes > highest {
                    return Err(Error::LimitExceeded(OBJECT_TOO_LARGE));
                }
                bytes
            }
            MemoryNeed::Repository | MemoryNeed::Fetch => repository,
            MemoryNeed::Maintenance => repository.saturating_add(COMPRESSION_BYTES),
            MemoryNeed::Push => self.total_bytes / PUSH_PART,
            MemoryNeed::Import => highest,
        };
        Ok(bytes.min(highest).next_multiple_of(UNIT_BYTES).min(highest))
    }

    /// Returns the memory that a program reserves in bytes. `limit` is the limit of each of its processes. The second process
    /// of a fetch reads commits, but no files.
    fn reserved_bytes(&self, need: MemoryNeed, profile: PackProfile, limit: u64) -> u64 {
        let second = match need {
            MemoryNeed::Fetch => profile
                .objects
                .saturating_mul(BYTES_PER_OBJECT)
                .saturating_add(NEGOTIATION_BYTES),
            _ => 0,
        };
        // The limit is rounded up already.
        let second = second / UNIT_BYTES * UNIT_BYTES;
        limit.saturating_add(second).min(self.max_program_bytes())
    }
}

/// Memory that a running program has reserved, released on drop.
pub(super) struct MemoryReservation {
    /// Limit of each process in bytes.
    pub(super) bytes: u64,
    /// Largest allocation of a process in bytes.
    pub(super) max_allocation: Option<u64>,
    _units: FairPermit,
}

impl Repository {
    /// Waits for the memory of a program that reads the objects of the repository at `objects`.
    ///
    /// # Errors
    /// [`Error::Busy`] after a while, [`Error::LimitExceeded`].
    pub(super) async fn reserve_memory_for(
        &self,
        need: MemoryNeed,
        objects: &Path,
    ) -> Result<MemoryReservation> {
        let profile = match need {
            MemoryNeed::Repository | MemoryNeed::Fetch | MemoryNeed::Maintenance => {
                let path = objects.to_owned();
                // Without a slot, because the program has one.
                let read = tokio::task::spawn_blocking(move || object_memory::profile(&path));
                read.await.map_err(|_| Error::Worker)??
            }
            _ => PackProfile::default(),
        };
        let budget = &self.shared().memory;
        let bytes = budget.bytes(need, profile)?;
        let reserved = budget.reserved_bytes(need, profile, bytes);
        let units = u32::try_from(reserved / UNIT_BYTES).map_err(|_| Error::Worker)?;
        let mut acquired = pin!(budget.units.acquire_many(self.holder(), units));
        let reserved = tokio::time::timeout(WAIT_LIMIT, async {
            loop {
                match tokio::time::timeout(EARLY_PROGRAMS_KEEP, &mut acquired).await {
                    Ok(permit) => return permit,
                    // Repeated, because further programs may start early meanwhile.
                    Err(_) => budget.wanted.notify_waiters(),
                }
            }
        });
        let Ok(permit) = reserved.await else {
            budget.units.count_refusal(self.holder());
            return Err(Error::Busy("Git uses too much memory already"));
        };
        Ok(MemoryReservation {
            bytes,
            max_allocation: budget.max_allocation(need),
            _units: permit.map_err(|_| Error::Worker)?,
        })
    }

    /// Returns the memory of a push if it is available now.
    pub(super) fn try_reserve_push_memory(&self) -> Option<MemoryReservation> {
        let budget = &self.shared().memory;
        let bytes = budget.bytes(MemoryNeed::Push, PackProfile::default()).ok()?;
        let units = u32::try_from(bytes / UNIT_BYTES).ok()?;
        Some(MemoryReservation {
            bytes,
            max_allocation: budget.max_allocation(MemoryNeed::Push),
            _units: budget.units.try_acquire_many(self.holder(), units)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_grows_with_repository_up_to_half_of_budget() {
        let budget = MemoryBudget::new(1 << 30);
        let of = |objects, max_bytes| {
            budget.bytes(
                MemoryNeed::Repository,
                PackProfile {
                    objects,
                    max_bytes,
                    small_bytes: 0,
                },
            )
        };
        assert_eq!(of(0, 0).unwrap(), 12 << 20);
        assert_eq!(of(1 << 20, 0).unwrap(), 268 << 20);
        assert_eq!(of(0, 100 << 20).unwrap(), 112 << 20);
        assert_eq!(of(u64::MAX, u64::MAX).unwrap(), 512 << 20);
        let object = |bytes| budget.bytes(MemoryNeed::Object(bytes), PackProfile::default());
        assert_eq!(object(500 << 20).unwrap(), 512 << 20);
        assert!(matches!(
            object((500 << 20) + 1),
            Err(Error::LimitExceeded(OBJECT_TOO_LARGE))
        ));
        assert_eq!(
            budget.bytes(MemoryNeed::Push, PackProfile::default()).unwrap(),
            256 << 20
        );
    }

    #[test]
    fn both_processes_of_a_fetch_are_counted() {
        let budget = MemoryBudget::new(1 << 30);
        let of = |need, objects| {
            let profile = PackProfile {
                objects,
                max_bytes: 20 << 20,
                small_bytes: 0,
            };
            let limit = budget.bytes(need, profile).unwrap();
            (limit, budget.reserved_bytes(need, profile, limit))
        };
        assert_eq!(of(MemoryNeed::Repository, 0), (32 << 20, 32 << 20));
        assert_eq!(of(MemoryNeed::Fetch, 0), (32 << 20, 36 << 20));
        assert_eq!(of(MemoryNeed::Fetch, 1 << 18), (96 << 20, 164 << 20));
        assert_eq!(of(MemoryNeed::Fetch, u64::MAX), (512 << 20, 512 << 20));
    }

    #[test]
    fn every_program_fits_into_the_smallest_budget() {
        let budget = MemoryBudget::new(0);
        for need in [
            MemoryNeed::Small,
            MemoryNeed::Files,
            MemoryNeed::Object(1),
            MemoryNeed::Repository,
            MemoryNeed::Fetch,
            MemoryNeed::Maintenance,
            MemoryNeed::Push,
            MemoryNeed::Import,
        ] {
            let bytes = budget.bytes(need, PackProfile::default()).unwrap();
            assert!(
                (PROGRAM_BYTES..=budget.max_program_bytes()).contains(&bytes),
                "{need:?}"
            );
        }
    }
}
