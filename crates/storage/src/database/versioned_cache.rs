//! Cache of data derived from the database, valid until the next write.

use std::hash::Hash;

use super::{DataVersion, Database};

/// Use of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUsage {
    /// Number of entries, including those of earlier versions that were not replaced yet.
    pub entries: u64,
    /// Total weight of the entries.
    pub weight: u64,
    /// Maximum total weight.
    pub capacity: u64,
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
    /// Creates a cache with a maximum total weight; `weigh` returns the weight of a value.
    pub fn new(capacity: u64, weigh: fn(&V) -> usize) -> Self {
        let weigher =
            move |_: &K, (_, value): &(DataVersion, V)| u32::try_from(weigh(value)).unwrap_or(u32::MAX);
        let entries = moka::sync::Cache::builder()
            .max_capacity(capacity)
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
            weight: self.entries.weighted_size(),
            capacity: self.entries.policy().max_capacity().unwrap_or_default(),
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
