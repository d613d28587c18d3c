//! Semaphore that limits the permits of each holder, so that one of them cannot take all.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Semaphore with a share for each holder. Permits are granted in the order of the requests.
#[derive(Debug)]
pub struct FairSemaphore<K> {
    all: Arc<Semaphore>,
    total: usize,
    shares: Shares<K>,
    /// Number of refused requests, for lack of permits and because of the share.
    refused: [AtomicU64; 2],
}

/// Permits of each holder, without a common limit.
#[derive(Debug)]
pub struct Shares<K> {
    share: usize,
    /// Semaphores of the holders that have permits or wait for one.
    of_holders: Mutex<HashMap<K, Weak<Semaphore>>>,
}

/// Use of a [`FairSemaphore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemaphoreUsage {
    /// Number of permits.
    pub total: usize,
    /// Maximum number of permits of a holder.
    pub share: usize,
    /// Number of permits in use.
    pub used: usize,
    /// Number of requests that were refused because all permits were in use.
    pub refused: u64,
    /// Number of requests that were refused because the holder had its share.
    pub refused_holders: u64,
}

impl SemaphoreUsage {
    /// Returns the use of a semaphore whose permits represent a number of bytes each, in bytes.
    pub(super) fn in_bytes(self, bytes: u64) -> Self {
        let scaled = |count: usize| count.saturating_mul(usize::try_from(bytes).unwrap_or(usize::MAX));
        Self {
            total: scaled(self.total),
            share: scaled(self.share),
            used: scaled(self.used),
            ..self
        }
    }
}

/// Permit of a [`FairSemaphore`], released on drop.
#[derive(Debug)]
pub struct FairPermit {
    _of_holder: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

impl<K: Clone + Eq + Hash> FairSemaphore<K> {
    /// Creates a semaphore with `total` permits, of which each holder gets at most `share`.
    #[must_use]
    pub fn new(total: usize, share: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(total)),
            total,
            shares: Shares::new(share),
            refused: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Waits for a permit. Without a holder only the total counts.
    ///
    /// # Errors
    /// Never fails, because the semaphores are never closed.
    pub async fn acquire(&self, holder: Option<&K>) -> Result<FairPermit, AcquireError> {
        self.acquire_many(holder, 1).await
    }

    /// Waits for a number of permits at once, which must not exceed the share of a holder. They are released together.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub async fn acquire_many(&self, holder: Option<&K>, count: u32) -> Result<FairPermit, AcquireError> {
        // The semaphore of the holder first, so that a holder who waits for it takes no common permit.
        let of_holder = match holder {
            Some(holder) => Some(self.shares.of_holder(holder).acquire_many_owned(count).await?),
            None => None,
        };
        Ok(FairPermit {
            _of_holder: of_holder,
            _of_all: Arc::clone(&self.all).acquire_many_owned(count).await?,
        })
    }

    /// Returns a number of permits if they are available to the holder now. A failure is not counted as a refusal.
    #[must_use]
    pub fn try_acquire_many(&self, holder: Option<&K>, count: u32) -> Option<FairPermit> {
        let of_holder = match holder {
            Some(holder) => Some(self.shares.of_holder(holder).try_acquire_many_owned(count).ok()?),
            None => None,
        };
        Some(FairPermit {
            _of_holder: of_holder,
            _of_all: Arc::clone(&self.all).try_acquire_many_owned(count).ok()?,
        })
    }

    /// Returns a permit if one is available to the holder now.
    #[must_use]
    pub fn try_acquire(&self, holder: Option<&K>) -> Option<FairPermit> {
        let of_holder = match holder {
            Some(holder) => match self.shares.of_holder(holder).try_acquire_owned() {
                Ok(permit) => Some(permit),
                Err(_) => {
                    self.refused[1].fetch_add(1, Ordering::Relaxed);
                    return None;
                }
            },
            None => None,
        };
        let Ok(of_all) = Arc::clone(&self.all).try_acquire_owned() else {
            self.refused[0].fetch_add(1, Ordering::Relaxed);
            return None;
        };
        Some(FairPermit {
            _of_holder: of_holder,
            _of_all: of_all,
        })
    }

    /// Counts a request that is refused because it waited too long.
    pub fn count_refusal(&self, holder: Option<&K>) {
        let has_share = holder.is_some_and(|holder| self.shares.of_holder(holder).available_permits() == 0);
        self.refused[usize::from(has_share)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the use of the semaphore.
    #[must_use]
    pub fn usage(&self) -> SemaphoreUsage {
        let [refused, refused_holders] = &self.refused;
        SemaphoreUsage {
            total: self.total,
            share: self.shares.share,
            used: self.total.saturating_sub(self.available_permits()),
            refused: refused.load(Ordering::Relaxed),
            refused_holders: refused_holders.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of permits that are available.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.all.available_permits()
    }
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Creates shares of which each holder has `share` permits.
    #[must_use]
    pub fn new(share: usize) -> Self {
        Self {
            share,
            of_holders: Mutex::default(),
        }
    }

    /// Returns the number of permits of a holder.
    #[must_use]
    pub fn share(&self) -> usize {
        self.share
    }

    /// Returns the number of permits that all holders use.
    #[must_use]
    pub fn used(&self) -> usize {
        let of_holders = self.of_holders.lock().unwrap_or_else(PoisonError::into_inner);
        let used = |known: &Weak<Semaphore>| Some(self.share - known.upgrade()?.available_permits());
        of_holders.values().filter_map(used).sum()
    }

    /// Returns the permits of a holder.
    #[must_use]
    pub fn of_holder(&self, holder: &K) -> Arc<Semaphore> {
        let mut of_holders = self.of_holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = of_holders.get(holder).and_then(Weak::upgrade) {
            return known;
        }
        // Remove the semaphores that are no longer in use.
        of_holders.retain(|_, known| known.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.share));
        of_holders.insert(holder.clone(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn holder_gets_at_most_its_share() {
        let semaphore = FairSemaphore::new(8, 3);
        let take = |holder: Option<&u8>| semaphore.acquire(holder).now_or_never().map(Result::unwrap);
        let mut permits: Vec<FairPermit> = (0..5).filter_map(|_| take(Some(&1))).collect();
        assert_eq!(permits.len(), 3);
        assert!(take(Some(&1)).is_none() && semaphore.try_acquire(Some(&1)).is_none());
        assert_eq!(semaphore.available_permits(), 5);
        permits.pop();
        permits.extend(semaphore.try_acquire(Some(&1)));
        assert_eq!(permits.len(), 3);
        // Others take the rest, and an operation without a holder counts for the total only.
        permits.extend((0..3).filter_map(|_| take(Some(&2))));
        permits.extend((0..3).filter_map(|_| take(None)));
        assert_eq!(permits.len(), 8);
        assert!(semaphore.try_acquire(None).is_none() && semaphore.try_acquire(Some(&3)).is_none());
        semaphore.count_refusal(Some(&1));
        let expected = SemaphoreUsage {
            total: 8,
            share: 3,
            used: 8,
            refused: 2,
            refused_holders: 2,
        };
        assert_eq!(semaphore.usage(), expected);
        assert_eq!(semaphore.shares.used(), 6);
    }

    #[test]
    fn waiting_holder_takes_no_common_permit() {
        let semaphore = FairSemaphore::new(2, 1);
        let first = semaphore.try_acquire(Some(&1)).unwrap();
        let mut waiting = Box::pin(semaphore.acquire(Some(&1)));
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(semaphore.available_permits(), 1);
        drop(first);
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn holders_without_permits_are_forgotten() {
        let semaphore = FairSemaphore::new(100, 1);
        let permits: Vec<_> = (0..50)
            .map(|holder| semaphore.try_acquire(Some(&holder)))
            .collect();
        drop(permits);
        let _permit = semaphore.try_acquire(Some(&50));
        assert_eq!(semaphore.shares.of_holders.lock().unwrap().len(), 1);
    }
}
