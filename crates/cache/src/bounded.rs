//! Cache with a limit on its memory.

use std::hash::Hash;

use quick_cache::{Equivalent, Weighter};

use super::{LibraryCache, library_cache};

/// Memory of an entry in addition to its key and value, in bytes.
const ENTRY_BYTES: usize = 48;

/// Size of an entry in bytes from which the number of entries is estimated. The cache remembers the keys of removed entries:
/// one for each two of the estimated entries.
const ESTIMATED_BYTES: u64 = 1024;

/// Maximum number of parts with their own lock. Small caches have fewer. An entry must fit into one part.
const PARTS: u64 = 4;

/// Use of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUsage {
    /// Number of entries, including those that are not valid anymore and were not replaced yet.
    pub entries: u64,
    /// Approximate memory of the entries in bytes.
    pub bytes: u64,
    /// Maximum memory in bytes.
    pub max_bytes: u64,
}

/// A cache that uses at most about a number of bytes. Entries that were read least are removed first.
pub struct BoundedCache<K, V> {
    entries: LibraryCache<K, Weighed<V>, EntryWeight>,
    weigh: fn(&K, &V) -> usize,
    max_bytes: u64,
}

/// A value with the memory of its entry in bytes.
#[derive(Clone)]
struct Weighed<V> {
    value: V,
    bytes: u64,
}

#[derive(Clone)]
struct EntryWeight;

impl<K, V> Weighter<K, Weighed<V>> for EntryWeight {
    fn weight(&self, _: &K, value: &Weighed<V>) -> u64 {
        value.bytes
    }
}

impl<K: Hash + Eq, V: Clone> BoundedCache<K, V> {
    /// Creates an empty cache. With 0 bytes, it stores nothing. `weigh` returns the memory of a key and a value in bytes that
    /// is outside of their own structures. An entry that needs more than about a quarter of the memory is not stored.
    #[must_use]
    pub fn new(max_bytes: u64, weigh: fn(&K, &V) -> usize) -> Self {
        Self::with_parts(PARTS, max_bytes, weigh)
    }

    /// Creates an empty cache like [`Self::new`], in which an entry can need almost all of the memory. Concurrent changes of
    /// the cache wait for each other.
    #[must_use]
    pub fn for_large_entries(max_bytes: u64, weigh: fn(&K, &V) -> usize) -> Self {
        Self::with_parts(1, max_bytes, weigh)
    }

    fn with_parts(parts: u64, max_bytes: u64, weigh: fn(&K, &V) -> usize) -> Self {
        let estimated = usize::try_from(max_bytes / ESTIMATED_BYTES).unwrap_or(usize::MAX);
        // The library rounds up.
        let capacity = max_bytes / parts * parts;
        Self {
            entries: library_cache(parts as usize, estimated, capacity, EntryWeight),
            weigh,
            max_bytes,
        }
    }

    /// Returns the value of a key.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.entries.get(key).map(|found| found.value)
    }

    /// Stores a value, and removes other entries if they need more than the memory together.
    pub fn insert(&self, key: K, value: V) {
        // The library keeps the structures in a list, which doubles when it is full.
        let structures = 2 * size_of::<(K, Weighed<V>)>() + ENTRY_BYTES;
        let bytes = ((self.weigh)(&key, &value) + structures) as u64;
        self.entries.insert(key, Weighed { value, bytes });
    }

    /// Returns the use of the cache now.
    #[must_use]
    pub fn usage(&self) -> CacheUsage {
        CacheUsage {
            entries: self.entries.len() as u64,
            bytes: self.entries.weight(),
            max_bytes: self.max_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(max_bytes: u64) -> BoundedCache<String, String> {
        BoundedCache::new(max_bytes, |key, value| key.len() + value.len())
    }

    #[test]
    fn entries_use_at_most_the_maximum_memory() {
        let max_bytes = 1 << 20;
        let cache = texts(max_bytes);
        for number in 0..4_000 {
            cache.insert(number.to_string(), "x".repeat(1_024));
        }
        let usage = cache.usage();
        assert_eq!(usage.max_bytes, max_bytes);
        assert!(
            usage.bytes <= max_bytes && usage.bytes > max_bytes * 3 / 4,
            "{usage:?}"
        );
        assert!(
            usage.entries * (1_024 + ENTRY_BYTES as u64) <= max_bytes,
            "{usage:?}"
        );
    }

    #[test]
    fn entry_that_does_not_fit_is_not_stored_and_replaces_the_value_before() {
        let cache = texts(1 << 20);
        cache.insert("key".to_owned(), "small".to_owned());
        assert_eq!(cache.get("key").as_deref(), Some("small"));
        cache.insert("key".to_owned(), "x".repeat(2 << 20));
        assert_eq!(cache.get("key"), None);
        assert_eq!(cache.usage().entries, 0);
    }

    #[test]
    fn cache_for_large_entries_stores_an_entry_of_most_of_its_memory() {
        let texts = |key: &String, value: &String| key.len() + value.len();
        let cache = BoundedCache::for_large_entries(1 << 20, texts);
        cache.insert("key".to_owned(), "x".repeat(1_000_000));
        assert!(cache.get("key").is_some());
        cache.insert("other".to_owned(), "x".repeat(100_000));
        assert!(cache.usage().bytes <= 1 << 20, "{:?}", cache.usage());
    }

    #[test]
    fn cache_without_memory_stores_nothing() {
        let cache = texts(0);
        cache.insert("key".to_owned(), String::new());
        assert_eq!(cache.get("key"), None);
        assert_eq!(cache.usage().bytes, 0);
    }

    #[test]
    fn entries_that_are_read_often_stay() {
        let cache = texts(1 << 20);
        cache.insert("read".to_owned(), "value".to_owned());
        for number in 0..10_000 {
            assert!(cache.get("read").is_some(), "removed after {number} others");
            cache.insert(number.to_string(), "x".repeat(1_024));
        }
    }
}
