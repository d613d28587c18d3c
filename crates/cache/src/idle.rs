//! Cache of open handles.

use std::cell::RefCell;
use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quick_cache::{Equivalent, UnitWeighter};

use super::{LibraryCache, library_cache};

/// A cache of at most a number of values. A value that is not used for a time is removed when the cache is used after that
/// time, at most a quarter of it later.
pub struct IdleCache<K, V> {
    entries: LibraryCache<K, Arc<Used<V>>, UnitWeighter>,
    /// Times are in milliseconds since this one.
    created: Instant,
    idle: u64,
    next_removal: AtomicU64,
}

/// A value with the time of its last use.
struct Used<V> {
    value: V,
    at: AtomicU64,
}

impl<K: Hash + Eq, V: Clone> IdleCache<K, V> {
    /// Creates an empty cache of at most `capacity` values, from which values are removed that are not used for `idle`.
    #[must_use]
    pub fn new(capacity: u32, idle: Duration) -> Self {
        Self {
            entries: library_cache(1, capacity as usize, u64::from(capacity), UnitWeighter),
            created: Instant::now(),
            idle: milliseconds(idle),
            next_removal: AtomicU64::new(0),
        }
    }

    /// Returns the value of a key.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.get_at(self.now(), key)
    }

    /// Stores a value.
    pub fn insert(&self, key: K, value: V) {
        self.insert_at(self.now(), key, value);
    }

    /// Returns the value of a key. If there is none, stores the value that `create` returns, while other callers with this
    /// key wait.
    pub fn get_or_insert_with<Q>(&self, key: &Q, create: impl FnOnce() -> V) -> V
    where
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        let now = self.now();
        self.remove_idle(now);
        let create = || Ok::<_, Infallible>(Used::new(now, create()));
        let Ok(used) = self.entries.get_or_insert_with(key, create);
        used.value(now)
    }

    /// Removes the value of a key.
    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) {
        self.entries.remove(key);
    }

    fn get_at<Q: Hash + Equivalent<K> + ?Sized>(&self, now: u64, key: &Q) -> Option<V> {
        self.remove_idle(now);
        self.entries.get(key).map(|used| used.value(now))
    }

    fn insert_at(&self, now: u64, key: K, value: V) {
        self.remove_idle(now);
        self.entries.insert(key, Used::new(now, value));
    }

    /// Removes the values that were not used for the time. Looks at all values only four times during that time.
    fn remove_idle(&self, now: u64) {
        let due = self.next_removal.load(Ordering::Relaxed);
        let next = now.saturating_add(self.idle / 4);
        let is_due = now >= due;
        if is_due
            && self
                .next_removal
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            // Closing a handle takes time, so the handles are dropped after the lock of the cache.
            let removed = RefCell::new(Vec::new());
            self.entries.retain(|_, used| {
                let is_used = now.saturating_sub(used.at.load(Ordering::Relaxed)) < self.idle;
                if !is_used {
                    removed.borrow_mut().push(Arc::clone(used));
                }
                is_used
            });
        }
    }

    /// Returns the time.
    fn now(&self) -> u64 {
        milliseconds(self.created.elapsed())
    }
}

impl<V: Clone> Used<V> {
    fn new(now: u64, value: V) -> Arc<Self> {
        let at = AtomicU64::new(now);
        Arc::new(Self { value, at })
    }

    fn value(&self, now: u64) -> V {
        self.at.store(now, Ordering::Relaxed);
        self.value.clone()
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_used_for_the_time_are_removed() {
        let cache = IdleCache::new(10, Duration::from_millis(100));
        cache.insert_at(0, "unused", 1);
        cache.insert_at(0, "used", 2);
        assert_eq!(cache.get_at(50, "used"), Some(2));
        assert_eq!(cache.get_at(99, "other"), None);
        assert_eq!(cache.entries.len(), 2);
        assert_eq!(cache.get_at(125, "other"), None);
        assert_eq!(cache.entries.len(), 1);
        assert_eq!(cache.get_at(125, "used"), Some(2));
    }

    #[test]
    fn at_most_the_given_number_of_values_is_kept() {
        let cache = IdleCache::new(10, Duration::from_hours(1));
        for number in 0..100 {
            cache.insert(number, number);
        }
        assert!((8..=10).contains(&cache.entries.len()), "{}", cache.entries.len());
        assert_eq!(cache.get(&99), Some(99));
    }

    #[test]
    fn value_is_created_once_and_again_after_its_removal() {
        let cache = IdleCache::new(10, Duration::from_hours(1));
        assert_eq!(cache.get_or_insert_with("key", || 1), 1);
        assert_eq!(cache.get_or_insert_with("key", || 2), 1);
        cache.remove("key");
        assert_eq!(cache.get_or_insert_with("key", || 3), 3);
    }
}
