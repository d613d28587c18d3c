//! Caches in memory: [`BoundedCache`] for results, and [`IdleCache`] for open handles.
//!
//! Both are generic, so the compiler creates their code again for each type of key and value. The library was chosen because
//! it creates little code (ADR 81).

mod bounded;
mod idle;

use std::hash::{Hash, RandomState};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

pub use bounded::{BoundedCache, CacheUsage};
pub use idle::IdleCache;

/// A cache of the library. Keys contain input of clients, so the hash function protects against keys with equal hashes.
type LibraryCache<K, V, W> = Cache<K, V, W, RandomState>;

/// Creates a cache with at most `parts` parts, for entries whose weights add up to at most `capacity`.
fn library_cache<K, V, W>(
    parts: usize,
    estimated_entries: usize,
    capacity: u64,
    weights: W,
) -> LibraryCache<K, V, W>
where
    K: Hash + Eq,
    V: Clone,
    W: Weighter<K, V> + Clone,
{
    let mut options = OptionsBuilder::new();
    options
        .shards(parts)
        .estimated_items_capacity(estimated_entries)
        .weight_capacity(capacity);
    #[expect(clippy::expect_used, reason = "both required options are set above")]
    let options = options.build().expect("complete options");
    Cache::with_options(options, weights, RandomState::new(), DefaultLifecycle::default())
}
