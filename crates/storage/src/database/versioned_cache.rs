//! Cache of data derived from the database, valid until the next write.

use std::hash::Hash;

use super::{Database, Version};

/// Cache for one kind of query. An entry is valid only while the database has the [`Version`] at which it was
/// stored. PostgreSQL has no version, so nothing is cached.
pub struct Remembered<K, V> {
    answers: moka::sync::Cache<K, (Version, V)>,
}

impl<K, V> Remembered<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Creates a cache with a maximum total weight; `weigh` returns the weight of a value.
    pub fn new(most: u64, weigh: fn(&V) -> usize) -> Self {
        let weigher = move |_: &K, (_, value): &(Version, V)| u32::try_from(weigh(value)).unwrap_or(u32::MAX);
        let answers = moka::sync::Cache::builder()
            .max_capacity(most)
            .weigher(weigher)
            .build();
        Self { answers }
    }

    /// Returns the value stored at this version.
    pub fn known(&self, version: Version, key: &K) -> Option<V> {
        let (given_at, value) = self.answers.get(key)?;
        (given_at == version).then_some(value)
    }

    /// Stores a value. The version must be read before the query, so that a concurrent write invalidates the
    /// entry.
    pub fn keep(&self, version: Version, key: K, value: V) {
        self.answers.insert(key, (version, value));
    }

    /// Returns the value of `key` from the cache, else from `ask`. Errors are not cached.
    ///
    /// # Errors
    /// The error of `ask`.
    pub async fn recall<E>(
        &self,
        database: &Database,
        key: K,
        ask: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        let Some(version) = database.version() else {
            return ask.await;
        };
        if let Some(known) = self.known(version, &key) {
            return Ok(known);
        }
        let value = ask.await?;
        self.keep(version, key, value.clone());
        Ok(value)
    }
}
