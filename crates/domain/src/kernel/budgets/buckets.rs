//! Buckets of clients, in memory of fixed size (ADR 41).
//!
//! The state of a bucket is one number: the time at which it is full again (generic cell rate algorithm). A table has a
//! number of sets, each with a few buckets, and a full set replaces the bucket that is full the soonest. So a client with
//! many addresses cannot grow the table; it can only reset buckets that were nearly full.

use std::sync::{Mutex, PoisonError};

/// Number of sets of a table.
pub(super) const SETS: usize = 2 << 10;
/// Number of buckets of a set. With 16,384 buckets in total, a table takes 272 KiB.
pub(super) const WAYS: usize = 8;

/// A set of buckets, with a lock of its own.
pub(super) type Set = Mutex<[Bucket; WAYS]>;

/// The bucket of a client.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bucket {
    /// Hash of the client.
    key: u64,
    /// When the bucket is full again, in nanoseconds since the start.
    full_at: u64,
}

/// Buckets of clients, by the hash of the client.
#[derive(Debug)]
pub(super) struct BucketTable {
    pub(super) sets: Box<[Set]>,
}

impl BucketTable {
    /// Returns a table in which all buckets are full.
    pub(super) fn new() -> Self {
        Self {
            sets: (0..SETS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Changes the bucket of the client with this hash, at a time in nanoseconds since the start. `change` receives the
    /// time until the bucket is full, and returns the new one with a result.
    pub(super) fn update<T>(&self, key: u64, now: u64, change: impl FnOnce(u64) -> (u64, T)) -> T {
        let set = &self.sets[usize::try_from(key % SETS as u64).unwrap_or(0)];
        let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = entry(&mut set, key);
        // A bucket that is not in the table is full.
        let missing = match bucket.key == key {
            true => bucket.full_at.saturating_sub(now),
            false => 0,
        };
        let (after, result) = change(missing);
        if after != missing {
            *bucket = Bucket {
                key,
                full_at: now.saturating_add(after),
            };
        }
        result
    }
}

/// Returns the bucket of a client, or the bucket to replace: the one that is full the soonest.
fn entry(set: &mut [Bucket; WAYS], key: u64) -> &mut Bucket {
    let known = set.iter().position(|bucket| bucket.key == key);
    let position = known.unwrap_or_else(|| {
        let oldest = (0..WAYS).min_by_key(|position| set[*position].full_at);
        oldest.unwrap_or_default()
    });
    &mut set[position]
}
