//! Answers that follow from the database, kept as long as nothing in it changes.

use std::hash::Hash;

use super::{Database, Version};

/// Answers to questions of one kind. What is remembered is exactly what would be answered again: an answer
/// counts only while the database's [`Version`] is the one it was given at. With PostgreSQL there is no version,
/// and nothing is remembered.
pub struct Remembered<K, V> {
    answers: moka::sync::Cache<K, (Version, V)>,
}

impl<K, V> Remembered<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Room for answers up to a total weight; each weighs what `weigh` says of its value.
    pub fn new(most: u64, weigh: fn(&V) -> usize) -> Self {
        let weigher = move |_: &K, (_, value): &(Version, V)| u32::try_from(weigh(value)).unwrap_or(u32::MAX);
        let answers = moka::sync::Cache::builder()
            .max_capacity(most)
            .weigher(weigher)
            .build();
        Self { answers }
    }

    /// What was answered at this version.
    pub fn known(&self, version: Version, key: &K) -> Option<V> {
        let (given_at, value) = self.answers.get(key)?;
        (given_at == version).then_some(value)
    }

    /// Remembers an answer. The version must have been taken before the database was asked: whatever is written
    /// in between then makes the answer count for nothing.
    pub fn keep(&self, version: Version, key: K, value: V) {
        self.answers.insert(key, (version, value));
    }

    /// The answer to the question `key`; `ask` puts it to the database, unless the answer is known. Failures are
    /// not remembered.
    ///
    /// # Errors
    /// What `ask` fails with.
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
