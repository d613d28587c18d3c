//! Cache of data derived from the database, valid until the next write.

use std::hash::Hash;

use cache::{BoundedCache, CacheUsage};

use super::{DataVersion, Database};

/// Cache for one kind of query. An entry is valid only while the database has the [`DataVersion`] at which it was
/// stored. On PostgreSQL, only requests that read the version use it ([`Database::read_version`]).
pub struct VersionedCache<K, V> {
    entries: BoundedCache<K, (DataVersion, V)>,
}

impl<K: Hash + Eq, V: Clone> VersionedCache<K, V> {
    /// Creates a cache that uses at most about `max_bytes` of memory. `weigh` returns the memory of a key and a value in bytes
    /// that is outside of their own structures.
    pub fn new(max_bytes: u64, weigh: fn(&K, &(DataVersion, V)) -> usize) -> Self {
        let entries = BoundedCache::new(max_bytes, weigh);
        Self { entries }
    }

    /// Returns the use of the cache now.
    pub fn usage(&self) -> CacheUsage {
        self.entries.usage()
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
