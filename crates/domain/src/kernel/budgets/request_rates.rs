//! Requests per minute of each client, counted on this node (ADR 41).
//!
//! Each client has a bucket with as many requests as its limit, which refills evenly within a minute.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::buckets::BucketTable;

/// A minute in nanoseconds.
const MINUTE: u64 = 60_000_000_000;

/// Client whose requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateClient {
    /// The user whose credentials the request contains.
    User(i64),
    /// The deploy token with this ID. Its limit is that of a user.
    DeployToken(i64),
    /// The identity provider of a group, by the ID of its SAML provider. Its limit is that of a user.
    IdentityProvider(i64),
    /// An anonymous client, or one with invalid credentials. Clients without a known address share a bucket.
    Address(Option<IpAddr>),
}

/// State of a client's limit after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateState {
    /// Maximum number of requests within a minute.
    pub limit: u32,
    /// Number of requests that the client can send now.
    pub remaining: u32,
    /// Time until the client can send as many requests as the limit.
    pub full_in: Duration,
    /// Time until the next permitted request, if the request is refused.
    pub retry_in: Option<Duration>,
}

/// The limits of all clients.
#[derive(Debug)]
pub struct RequestRates {
    users: Option<RateTable>,
    addresses: Option<RateTable>,
    /// Random, so that no client can choose keys of one set.
    hasher: RandomState,
    start: Instant,
}

impl RequestRates {
    /// Returns limits in requests per minute; 0 is unlimited.
    #[must_use]
    pub fn new(per_user: u32, per_address: u32) -> Self {
        let table = |limit| (limit > 0).then(|| RateTable::new(limit));
        Self {
            users: table(per_user),
            addresses: table(per_address),
            hasher: RandomState::new(),
            start: Instant::now(),
        }
    }

    /// Counts a request. Returns `None` if the client is not limited.
    #[must_use]
    pub fn count(&self, client: RateClient) -> Option<RateState> {
        let table = match client {
            RateClient::User(_) | RateClient::DeployToken(_) | RateClient::IdentityProvider(_) => {
                self.users.as_ref()?
            }
            RateClient::Address(_) => self.addresses.as_ref()?,
        };
        let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX / 2);
        Some(table.count(self.hasher.hash_one(client), now))
    }

    /// Returns the limit of a user, or of an address; 0 is unlimited.
    #[must_use]
    pub fn limits(&self) -> (u32, u32) {
        let limit = |table: &Option<RateTable>| table.as_ref().map_or(0, |table| table.limit);
        (limit(&self.users), limit(&self.addresses))
    }

    /// Returns how many requests of users, and of addresses, were refused.
    #[must_use]
    pub fn refused(&self) -> (u64, u64) {
        let refused = |table: &Option<RateTable>| {
            let table = table.as_ref();
            table.map_or(0, |table| table.refused.load(Ordering::Relaxed))
        };
        (refused(&self.users), refused(&self.addresses))
    }
}

/// Buckets of the same limit.
#[derive(Debug)]
struct RateTable {
    limit: u32,
    /// Time in which one request refills, in nanoseconds.
    interval: u64,
    buckets: BucketTable,
    refused: AtomicU64,
}

impl RateTable {
    fn new(limit: u32) -> Self {
        Self {
            limit,
            interval: MINUTE / u64::from(limit),
            buckets: BucketTable::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Counts a request of the client with this hash, at a time in nanoseconds since the start.
    fn count(&self, key: u64, now: u64) -> RateState {
        let capacity = self.interval * u64::from(self.limit);
        let state = self.buckets.update(key, now, |missing| {
            let after = missing + self.interval;
            if after > capacity {
                let refused = RateState {
                    limit: self.limit,
                    remaining: 0,
                    full_in: Duration::from_nanos(missing),
                    retry_in: Some(Duration::from_nanos(after - capacity)),
                };
                return (missing, refused);
            }
            let permitted = RateState {
                limit: self.limit,
                remaining: u32::try_from((capacity - after) / self.interval).unwrap_or(u32::MAX),
                full_in: Duration::from_nanos(after),
                retry_in: None,
            };
            (after, permitted)
        });
        if state.retry_in.is_some() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::buckets::{SETS, Set};
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn client_sends_its_limit_and_then_waits_for_refill() {
        let table = RateTable::new(60);
        for sent in 1..=60 {
            let state = table.count(7, 5);
            assert_eq!((state.remaining, state.retry_in), (60 - sent, None));
            assert_eq!(state.full_in, Duration::from_secs(u64::from(sent)));
        }
        let refused = table.count(7, 5);
        assert_eq!((refused.limit, refused.remaining), (60, 0));
        assert_eq!(refused.retry_in, Some(Duration::from_secs(1)));
        assert_eq!(refused.full_in, Duration::from_secs(60));
        // A refused request costs nothing, and other clients are not affected.
        assert_eq!(table.count(7, 5).retry_in, Some(Duration::from_secs(1)));
        assert_eq!(table.count(8, 5).remaining, 59);
        assert_eq!(table.count(7, 5 + SECOND).retry_in, None);
        assert!(table.count(7, 5 + SECOND).retry_in.is_some());
        assert_eq!(table.refused.load(Ordering::Relaxed), 3);
        // Idle time refills the bucket up to the limit, not beyond.
        assert_eq!(table.count(7, 1_000 * SECOND).remaining, 59);
    }

    #[test]
    fn limits_that_do_not_divide_a_minute_permit_exactly_the_limit() {
        for limit in [1, 7, 601, 3_000_000, u32::MAX] {
            let table = RateTable::new(limit);
            assert_eq!(table.count(1, 0).remaining, limit - 1, "{limit}");
        }
        let table = RateTable::new(7);
        let permitted = (0..20).filter(|_| table.count(1, 0).retry_in.is_none()).count();
        assert_eq!(permitted, 7);
    }

    #[test]
    fn hundred_thousand_addresses_take_no_more_memory_and_evict_full_buckets_first() {
        let rates = RequestRates::new(0, 2);
        let addresses = rates.addresses.as_ref().expect("a table");
        let key = rates.hasher.hash_one(RateClient::Address(None));
        assert_eq!(addresses.count(key, 0).remaining, 1);
        assert_eq!(addresses.count(key, 0).remaining, 0);
        for number in 0..100_000_u32 {
            let address = Some(IpAddr::V4(Ipv4Addr::from(number)));
            let state = addresses.count(rates.hasher.hash_one(RateClient::Address(address)), 0);
            assert_eq!(state.retry_in, None);
        }
        assert_eq!(size_of_val(&*addresses.buckets.sets), SETS * size_of::<Set>());
        // The client that used its limit is still known, because all others are full sooner.
        assert!(addresses.count(key, 0).retry_in.is_some());
    }

    #[test]
    fn zero_is_unlimited() {
        let rates = RequestRates::new(0, 1);
        assert_eq!(rates.count(RateClient::User(1)), None);
        assert_eq!(rates.count(RateClient::IdentityProvider(1)), None);
        assert!(rates.count(RateClient::Address(None)).is_some());
        assert_eq!((rates.limits(), rates.refused()), ((0, 1), (0, 0)));
        assert!(
            rates
                .count(RateClient::Address(None))
                .is_some_and(|state| state.retry_in.is_some())
        );
        assert_eq!(rates.refused(), (0, 1));
    }

    #[test]
    fn user_deploy_token_and_identity_provider_with_same_id_are_different_clients() {
        let rates = RequestRates::new(1, 1);
        for client in [
            RateClient::User(1),
            RateClient::DeployToken(1),
            RateClient::IdentityProvider(1),
            RateClient::User(2),
        ] {
            assert!(
                rates.count(client).is_some_and(|state| state.retry_in.is_none()),
                "{client:?}"
            );
        }
    }
}
