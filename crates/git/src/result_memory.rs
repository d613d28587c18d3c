//! Memory of results that callers keep: the texts of commits and tags.
//!
//! A text of a few compressed bytes can have megabytes, and a page has many of them. The memory of a request is reserved
//! before they are kept.

use std::fmt;
use std::sync::Arc;

use super::{Error, Result};

/// Memory that the client of a repository may use for results.
pub trait ResultMemory: fmt::Debug + Send + Sync {
    /// Reserves bytes until the request of the client ends. Returns whether enough was left.
    fn reserve(&self, bytes: u64) -> bool;
}

/// Size of the texts of one result that is not counted, in bytes.
const UNCOUNTED_BYTES: u64 = 256 << 10;
/// Maximum size of the texts of one result for work of the server itself, in bytes.
const MAX_UNRESERVED_BYTES: u64 = 16 << 20;
/// A response can contain the first line of a text twice.
const COPIES: u64 = 2;

/// Counts the texts of one result.
pub(super) struct ResultSize {
    memory: Option<Arc<dyn ResultMemory>>,
    bytes: u64,
    counted: u64,
}

impl ResultSize {
    /// `memory` is that of the client, or `None` for work of the server itself.
    pub(super) fn new(memory: Option<Arc<dyn ResultMemory>>) -> Self {
        Self {
            memory,
            bytes: 0,
            counted: UNCOUNTED_BYTES,
        }
    }

    /// Counts a text before it is added to the result.
    ///
    /// # Errors
    /// [`Error::MemoryExhausted`] if too little memory is left for the client. [`Error::LimitExceeded`] if no client is known and
    /// the result exceeds the maximum.
    pub(super) fn add(&mut self, length: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(length as u64);
        let missing = self.bytes.saturating_sub(self.counted);
        let is_available = match &self.memory {
            _ if missing == 0 => return Ok(()),
            Some(memory) => memory.reserve(missing.saturating_mul(COPIES)),
            None if self.bytes > MAX_UNRESERVED_BYTES => {
                return Err(Error::LimitExceeded(
                    "the messages of the commits have more than 16 MiB",
                ));
            }
            None => true,
        };
        if !is_available {
            return Err(Error::MemoryExhausted);
        }
        self.counted = self.bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Limited {
        left: AtomicU64,
    }

    impl ResultMemory for Limited {
        fn reserve(&self, bytes: u64) -> bool {
            let take = |left: u64| left.checked_sub(bytes);
            self.left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
        }
    }

    #[test]
    fn large_results_are_reserved_twice() {
        let memory = Arc::new(Limited {
            left: AtomicU64::new(4 << 20),
        });
        let mut size = ResultSize::new(Some(Arc::clone(&memory) as Arc<dyn ResultMemory>));
        size.add(UNCOUNTED_BYTES as usize).unwrap();
        assert_eq!(memory.left.load(Ordering::Relaxed), 4 << 20);
        size.add(2 << 20).unwrap();
        assert_eq!(memory.left.load(Ordering::Relaxed), 0);
        assert!(matches!(size.add(1), Err(Error::MemoryExhausted)));
    }

    #[test]
    fn results_of_the_server_are_limited() {
        let mut size = ResultSize::new(None);
        size.add(MAX_UNRESERVED_BYTES as usize).unwrap();
        assert!(matches!(size.add(1), Err(Error::LimitExceeded(_))));
    }
}
