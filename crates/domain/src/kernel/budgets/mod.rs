//! Budgets: what requests may use of this node, for the process, each client address and each user.
//!
//! Budgets count per node. The package `git`, which does not depend on this one, has the slots and the memory of Git
//! programs, and `parsers` the number of JSON values. [`crate::kernel::budget_report`] reports all of them, and
//! `docs/LIMITS.md` lists them with their settings and errors.

mod buckets;
mod client_usage;
mod payload_slots;
mod request_rates;
mod reservations;
mod upload_slots;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use git::Shares;
use storage::database;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use client_usage::{ClientUsage, GitTime};
pub use payload_slots::{PayloadHolder, PayloadSlot, PayloadSlots, SMALL_PAYLOAD_BYTES, SentPayloadSlot};
pub use request_rates::{RateClient, RateState, RequestRates};
pub use reservations::{Budget, Holder, RequestMemory, Reservation};
pub use upload_slots::{UploadSlot, UploadSlots};

use crate::kernel::error::{Error, Result};
use reservations::Limits;

/// Default memory for the bodies of all requests and responses, in bytes.
pub const BODY_MEMORY_BYTES: u64 = 256 << 20;
/// Default maximum number of requests of a user, or of an anonymous address, within a minute. It stops clients that run
/// away and is above the throughput of a small machine; the other budgets share the machine among clients.
pub const REQUESTS_PER_MINUTE: u32 = 3_000_000;
/// Bodies of requests up to this size in bytes are not counted in the memory for bodies. All connections together use a
/// few megabytes for them.
pub const UNCOUNTED_REQUEST_BYTES: u64 = 4 << 10;
/// Bodies of responses up to this size in bytes are not counted in the memory for bodies. They fit into the send
/// buffer of a connection.
pub const UNCOUNTED_RESPONSE_BYTES: usize = 16 << 10;

/// Default maximum number of database connections.
pub const DATABASE_CONNECTIONS: u32 = 10;
/// Default time after which a request starts no more statements, in seconds of its statements.
pub const DATABASE_SECONDS: u64 = 30;

/// Default processor time of the Git programs of a client within ten minutes, in seconds per core: half of the time of
/// the machine.
pub const GIT_PROCESSOR_SECONDS_PER_CORE: u64 = 300;
/// Default number of bytes of request bodies of a client within ten minutes: ten times the default maximum size of a push
/// or of an image layer, and more than a connection with 1 Gbit/s transfers.
pub const RECEIVED_BYTES: u64 = 100 << 30;

/// Settings of the budgets.
#[derive(Debug, Clone)]
pub struct BudgetSettings {
    /// Memory for the bodies of all requests and responses, in bytes.
    pub memory_bytes: u64,
    /// Maximum number of requests of a user within a minute; 0 is unlimited.
    pub requests_per_minute_per_user: u32,
    /// Maximum number of requests of an anonymous address within a minute; 0 is unlimited.
    pub requests_per_minute_per_address: u32,
    /// Maximum number of database connections.
    pub database_connections: u32,
    /// Time after which a request starts no more statements; 0 is unlimited.
    pub database_seconds: u64,
    /// Processor seconds of the Git programs of a client within ten minutes; 0 is unlimited.
    pub git_processor_seconds_per_client: u64,
    /// Bytes of the request bodies of a client within ten minutes; 0 is unlimited.
    pub received_bytes_per_client: u64,
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self {
            memory_bytes: BODY_MEMORY_BYTES,
            requests_per_minute_per_user: REQUESTS_PER_MINUTE,
            requests_per_minute_per_address: REQUESTS_PER_MINUTE,
            database_connections: DATABASE_CONNECTIONS,
            database_seconds: DATABASE_SECONDS,
            git_processor_seconds_per_client: git_processor_seconds(),
            received_bytes_per_client: RECEIVED_BYTES,
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
    /// Database connections that requests of one client use at the same time.
    pub database: Shares<RateClient>,
    /// Maximum number of database connections.
    pub database_connections: u32,
    /// Time after which a request starts no more statements.
    pub database_time: Option<Duration>,
    /// Processor seconds of Git programs.
    pub git_time: Arc<ClientUsage>,
    /// Bytes of request bodies.
    pub received_bytes: ClientUsage,
    /// Slots for parsing large request bodies and scanner reports. At least one core remains for other requests.
    parsers: Arc<Semaphore>,
    parser_count: usize,
}

impl Budgets {
    /// Returns budgets with these settings.
    #[must_use]
    pub fn new(settings: &BudgetSettings) -> Self {
        let parser_count = cores().saturating_sub(1).max(1);
        Self {
            memory: Budget::new(Limits::of_memory(settings.memory_bytes)),
            requests: RequestRates::new(
                settings.requests_per_minute_per_user,
                settings.requests_per_minute_per_address,
            ),
            database: Shares::new(database_share(settings.database_connections)),
            database_connections: settings.database_connections,
            database_time: (settings.database_seconds > 0)
                .then(|| Duration::from_secs(settings.database_seconds)),
            git_time: Arc::new(ClientUsage::new(settings.git_processor_seconds_per_client)),
            received_bytes: ClientUsage::new(settings.received_bytes_per_client),
            parsers: Arc::new(Semaphore::new(parser_count)),
            parser_count,
        }
    }

    /// Limits the statements of the current request to the share of its client.
    pub fn use_database_share(&self, client: RateClient) {
        database::use_share(self.database.of_holder(&client));
    }

    /// Returns the number of slots for parsing large request bodies, and how many of them are in use.
    #[must_use]
    pub fn parser_slots(&self) -> (usize, usize) {
        let free = self.parsers.available_permits();
        (self.parser_count, self.parser_count.saturating_sub(free))
    }

    /// Waits for a slot to parse a large request body. The parser owns the slot, because its thread continues after the
    /// client has disconnected.
    ///
    /// # Errors
    /// Never fails in a running server.
    pub async fn parser(&self) -> Result<OwnedSemaphorePermit> {
        let parsers = Arc::clone(&self.parsers);
        parsers.acquire_owned().await.map_err(Error::internal)
    }
}

/// Returns the default processor time of the Git programs of a client within ten minutes, in seconds.
#[must_use]
pub fn git_processor_seconds() -> u64 {
    GIT_PROCESSOR_SECONDS_PER_CORE.saturating_mul(cores() as u64)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, NonZeroUsize::get)
}

/// Returns how many of the connections one client uses at the same time: three quarters, as of the memory for bodies.
fn database_share(connections: u32) -> usize {
    usize::try_from(connections / 4 * 3 + connections % 4 * 3 / 4).map_or(1, |share| share.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_uses_three_quarters_of_the_connections_and_at_least_one() {
        let shares = [0, 1, 2, 3, 4, 10, 100, u32::MAX].map(database_share);
        assert_eq!(shares, [1, 1, 1, 2, 3, 7, 75, 3_221_225_471]);
    }
}
