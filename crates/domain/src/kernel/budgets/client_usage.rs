//! What each client has used of a resource on this node, such as processor seconds or bytes (ADR 86).
//!
//! The amount is known only afterwards. So a client is refused once its bucket is empty, and a use that exceeds the bucket
//! lengthens the time until the client is permitted again.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use git::ProcessorBudget;

use super::buckets::BucketTable;
use super::request_rates::RateClient;

/// Time in which an empty bucket is refilled.
const WINDOW: Duration = Duration::from_secs(600);

/// Use of a resource by each client, with the same limit for all of them.
#[derive(Debug)]
pub struct ClientUsage {
    /// The limit within the window; 0 is unlimited.
    limit: u64,
    users: Option<UsageTable>,
    addresses: Option<UsageTable>,
    /// Random, so that no client can choose keys of one set.
    hasher: RandomState,
    start: Instant,
}

#[derive(Debug)]
struct UsageTable {
    buckets: BucketTable,
    refused: AtomicU64,
}

impl UsageTable {
    fn new() -> Self {
        Self {
            buckets: BucketTable::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Returns how long the client with this hash must wait, at a time in nanoseconds since the start.
    fn wait(&self, key: u64, now: u64) -> Option<Duration> {
        let missing = self.buckets.update(key, now, |missing| (missing, missing));
        let wait = Duration::from_nanos(missing).checked_sub(WINDOW)?;
        self.refused.fetch_add(1, Ordering::Relaxed);
        Some(wait)
    }

    /// Takes the share `amount / limit` of a bucket.
    fn charge(&self, key: u64, now: u64, amount: u128, limit: u128) {
        let cost = amount.saturating_mul(WINDOW.as_nanos()) / limit;
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let charge = |missing: u64| (missing.saturating_add(cost), ());
        self.buckets.update(key, now, charge);
    }
}

impl ClientUsage {
    /// Returns a limit within ten minutes; 0 is unlimited.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let table = || (limit > 0).then(UsageTable::new);
        Self {
            limit,
            users: table(),
            addresses: table(),
            hasher: RandomState::new(),
            start: Instant::now(),
        }
    }

    /// Returns the limit; 0 is unlimited.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns how many requests of users, and of addresses, were refused.
    #[must_use]
    pub fn refused(&self) -> (u64, u64) {
        let refused = |table: &Option<UsageTable>| {
            let table = table.as_ref();
            table.map_or(0, |table| table.refused.load(Ordering::Relaxed))
        };
        (refused(&self.users), refused(&self.addresses))
    }

    /// Returns how long a client must wait, and counts the refusal; `None` if the client has something left.
    #[must_use]
    pub fn wait(&self, client: RateClient) -> Option<Duration> {
        self.table(client)?.wait(self.hasher.hash_one(client), self.now())
    }

    /// Charges an amount to a client.
    pub fn charge(&self, client: RateClient, amount: u64) {
        self.charge_part(client, amount.into(), 1);
    }

    /// Charges a time to a client whose limit is in seconds.
    pub fn charge_time(&self, client: RateClient, time: Duration) {
        self.charge_part(client, time.as_nanos(), 1_000_000_000);
    }

    /// Charges an amount in units of which `parts` are one unit of the limit.
    fn charge_part(&self, client: RateClient, amount: u128, parts: u128) {
        if let Some(table) = self.table(client) {
            let limit = u128::from(self.limit).saturating_mul(parts);
            table.charge(self.hasher.hash_one(client), self.now(), amount, limit);
        }
    }

    /// Returns the buckets of clients of the same kind, or `None` without a limit.
    fn table(&self, client: RateClient) -> Option<&UsageTable> {
        match client {
            RateClient::User(_) | RateClient::DeployToken(_) | RateClient::IdentityProvider(_) => {
                self.users.as_ref()
            }
            RateClient::Address(_) => self.addresses.as_ref(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
    }
}

/// Processor time of the Git programs of one request. Clones belong to the same request.
#[derive(Debug, Clone)]
pub struct GitTime(Arc<GitTimeParts>);

#[derive(Debug)]
struct GitTimeParts {
    usage: Arc<ClientUsage>,
    client: RateClient,
    /// Whether the request was permitted to start a program. It can start further ones then: a request that is refused
    /// must have changed nothing.
    admitted: AtomicBool,
}

impl GitTime {
    /// Returns the processor time of a request of a client.
    #[must_use]
    pub fn new(usage: &Arc<ClientUsage>, client: RateClient) -> Self {
        Self(Arc::new(GitTimeParts {
            usage: Arc::clone(usage),
            client,
            admitted: AtomicBool::new(false),
        }))
    }

    /// Permits all further programs of the request.
    pub fn admit(&self) {
        self.0.admitted.store(true, Ordering::Relaxed);
    }
}

impl ProcessorBudget for GitTime {
    fn wait(&self) -> Option<Duration> {
        if self.0.admitted.load(Ordering::Relaxed) {
            return None;
        }
        let wait = self.0.usage.wait(self.0.client);
        if wait.is_none() {
            self.admit();
        }
        wait
    }

    fn charge(&self, used: Duration) {
        self.0.usage.charge_time(self.0.client, used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn client_is_refused_once_its_bucket_is_empty_and_recovers() {
        let table = UsageTable::new();
        // Half of the limit, which is refilled in half of the window.
        table.charge(7, 0, 50, 100);
        assert_eq!(table.wait(7, 0), None);
        // A use that is larger than the rest is permitted, and paid for afterwards.
        table.charge(7, 0, 100, 100);
        assert_eq!(table.wait(7, 0), Some(Duration::from_secs(300)));
        assert_eq!(table.wait(8, 0), None);
        assert_eq!(table.wait(7, 299 * SECOND), Some(Duration::from_secs(1)));
        assert_eq!(table.wait(7, 300 * SECOND + 1), None);
        assert_eq!(table.refused.load(Ordering::Relaxed), 2);
        // Idle time refills the bucket up to the limit, not beyond.
        table.charge(7, 10_000 * SECOND, 100, 100);
        assert_eq!(table.wait(7, 10_000 * SECOND), Some(Duration::ZERO));
    }

    #[test]
    fn small_amounts_of_large_limits_are_counted() {
        let table = UsageTable::new();
        let limit = u128::from(u64::MAX);
        for _ in 0..4 {
            table.charge(1, 0, limit / 4 + 1, limit);
        }
        assert!(table.wait(1, 0).is_some());
        table.charge(2, 0, u128::MAX, 1);
        assert!(table.wait(2, 0).is_some_and(|wait| wait > WINDOW));
    }

    #[test]
    fn users_and_addresses_are_separate_and_zero_is_unlimited() {
        let usage = ClientUsage::new(10);
        usage.charge(RateClient::User(1), 11);
        assert!(usage.wait(RateClient::User(1)).is_some());
        let others = [
            RateClient::User(2),
            RateClient::DeployToken(1),
            RateClient::Address(None),
        ];
        assert!(others.iter().all(|client| usage.wait(*client).is_none()));
        usage.charge_time(RateClient::Address(None), Duration::from_secs(11));
        assert!(usage.wait(RateClient::Address(None)).is_some());
        assert_eq!((usage.limit(), usage.refused()), (10, (1, 1)));
        let unlimited = ClientUsage::new(0);
        unlimited.charge(RateClient::User(1), u64::MAX);
        assert_eq!(unlimited.wait(RateClient::User(1)), None);
    }

    #[test]
    fn admitted_request_starts_further_programs() {
        let usage = Arc::new(ClientUsage::new(10));
        let client = RateClient::User(1);
        let (running, committed) = (GitTime::new(&usage, client), GitTime::new(&usage, client));
        assert_eq!(running.wait(), None);
        running.charge(Duration::from_secs(20));
        assert_eq!(running.clone().wait(), None);
        assert!(committed.wait().is_some());
        committed.admit();
        assert_eq!(committed.wait(), None);
        assert!(GitTime::new(&usage, client).wait().is_some());
    }
}
