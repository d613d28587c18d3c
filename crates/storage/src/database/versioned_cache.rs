//! Cache of data derived from the database, valid until the next write.

use std::hash::Hash;

use super::{DataVersion, Database};

/// Memory of an entry in addition to its key and value, in bytes.
const ENTRY_BYTES: usize = 256;

/// Use of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUsage {
    /// Number of entries, including those of earlier versions that were not replaced yet.
    pub entries: u64,
    /// Approximate memory of the entries in bytes.
    pub bytes: u64,
    /// Maximum memory in bytes.
    pub max_bytes: u64,
}

/// Cache for one kind of query. An entry is valid only while the database has the [`DataVersion`] at which it was
/// stored. On PostgreSQL, only requests that read the version use it ([`Database::read_version`]).
pub struct VersionedCache<K, V> {
    entries: moka::sync::Cache<K, (DataVersion, V)>,
}

impl<K, V> VersionedCache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Creates a cache that uses at most about `max_bytes` of memory. `weigh` returns the memory of a key and a value in
    /// bytes that is outside of their own structures.
    pub fn new(max_bytes: u64, weigh: fn(&K, &V) -> usize) -> Self {
        let weigher = move |key: &K, (_, value): &(DataVersion, V)| {
            let bytes = weigh(key, value) + size_of::<(K, V)>() + ENTRY_BYTES;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let entries = moka::sync::Cache::builder()
            .max_capacity(max_bytes)
            .weigher(weigher)
            .build();
        Self { entries }
    }

    /// Returns the use of the cache now. Blocks the thread for less than a millisecond.
    pub fn usage(&self) -> CacheUsage {
        // Otherwise the numbers do not include the latest changes.
        self.entries.run_pending_tasks();
        CacheUsage {
            entries: self.entries.entry_count(),
            bytes: self.entries.weighted_size(),
            max_bytes: self.entries.policy().max_capacity().unwrap_or_default(),
        }
    }

    /// Returns the value stored at this version.
    pub fn get(&self, version: DataVersion, key: &K) -> Option<V> {
        let (stored_at, value) = self.entries.get(key)?;
        (stored_at == version).then_some(value)
    }

    /// Stores a value. The version must be read before the query, so that a concurrent write invalidates the
    /// entry.
    pub fn insert(&self, version: DataVersion, key: K, value: V) {
        self.entries.insert(key, (version, value));
    }

    /// Returns the value of `key` from the cache, else from `load`. Errors are not cached.
    ///
    /// # Errors
    /// The error of `load`.
    pub async fn get_or_load<E>(
        &self,
        database: &Database,
        key: K,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        let Some(version) = database.version() else {
            return Box::pin(load).await;
        };
        if let Some(known) = self.get(version, &key) {
            return Ok(known);
        }
        // Boxed, because the futures of lookups are large, and callers contain them.
        let value = Box::pin(load).await?;
        self.insert(version, key, value.clone());
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::version::DatabaseState;
    use super::*;

    fn entries_use_at_most_the_maximum_memory() {
        let max_bytes = 1 << 20;
        let cache = VersionedCache::new(max_bytes, |key: &String, value: &String| key.len() + value.len());
        let version = DataVersion::new(0, DatabaseState::Snapshot(1));
        for number in 0..4_000 {
            cache.insert(version, format!("{number}"), "x".repeat(1_024));
        }
        let usage = cache.usage();
        assert_eq!(usage.max_bytes, max_bytes);
        assert!(
            usage.bytes <= max_bytes && usage.bytes > max_bytes / 2,
            "{usage:?}"
        );
        let entry = 1_024 + ENTRY_BYTES as u64;
        assert!(usage.entries * entry <= max_bytes, "{usage:?}");
        cache.insert(version, "large".to_owned(), "x".repeat(2 << 20));
        // An entry is removed when the cache does its pending work.
        assert!(cache.usage().bytes <= max_bytes);
        assert_eq!(cache.get(version, &"large".to_owned()), None);
    }
    harness::tests![entries_use_at_most_the_maximum_memory];
}
