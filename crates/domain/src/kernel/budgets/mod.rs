//! Budgets: what requests may use of this node, for the process, each client address and each user.
//!
//! Every number that limits the use of a shared resource by requests is set or named here. Budgets count per node.
//! `docs/LIMITS.md` lists them with their settings and errors.

mod request_rates;
mod reservations;

use std::num::NonZeroUsize;

use tokio::sync::{Semaphore, SemaphorePermit};

pub use request_rates::{RateClient, RateState, RequestRates};
pub use reservations::{Budget, Holder, RequestMemory, Reservation};

use crate::kernel::error::{Error, Result};
use reservations::Limits;

/// Default memory for the bodies of all requests and responses, in bytes.
pub const BODY_MEMORY_BYTES: u64 = 384 << 20;
/// Default maximum number of requests of a user, or of an anonymous address, within a minute. It stops clients that run
/// away and is above the throughput of a small machine; the other budgets share the machine among clients.
pub const REQUESTS_PER_MINUTE: u32 = 3_000_000;

/// Settings of the budgets.
#[derive(Debug, Clone)]
pub struct BudgetSettings {
    /// Memory for the bodies of all requests and responses, in bytes.
    pub memory_bytes: u64,
    /// Maximum number of requests of a user within a minute; 0 is unlimited.
    pub requests_per_minute_per_user: u32,
    /// Maximum number of requests of an anonymous address within a minute; 0 is unlimited.
    pub requests_per_minute_per_address: u32,
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self {
            memory_bytes: BODY_MEMORY_BYTES,
            requests_per_minute_per_user: REQUESTS_PER_MINUTE,
            requests_per_minute_per_address: REQUESTS_PER_MINUTE,
        }
    }
}

/// The budgets of a node.
#[derive(Debug)]
pub struct Budgets {
    /// Memory for the bodies of requests and responses, in bytes.
    pub memory: Budget,
    /// Requests per minute.
    pub requests: RequestRates,
    /// Slots for parsing large request bodies. At least one core remains for other requests.
    parsers: Semaphore,
}

impl Budgets {
    /// Returns budgets with these settings.
    #[must_use]
    pub fn new(settings: &BudgetSettings) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Self {
            memory: Budget::new(Limits::of_memory(settings.memory_bytes)),
            requests: RequestRates::new(
                settings.requests_per_minute_per_user,
                settings.requests_per_minute_per_address,
            ),
            parsers: Semaphore::new(cores.saturating_sub(1).max(1)),
        }
    }

    /// Waits for a slot to parse a large request body.
    ///
    /// # Errors
    /// Never fails in a running server.
    pub async fn parser(&self) -> Result<SemaphorePermit<'_>> {
        self.parsers.acquire().await.map_err(Error::internal)
    }
}
