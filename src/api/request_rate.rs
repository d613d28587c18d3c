//! Counts each request once for its client, and refuses it above the limit of requests per minute (ADR 41).

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::kernel::Backend;
use domain::kernel::budgets::{RateClient, RateState};
use domain::kernel::caller::Caller;
use domain::kernel::error::{Error, Result};
use poem::Request;

use crate::api::access_record;
use crate::api::client_address;

/// The limit of one request; attached to every limited request. Clones refer to the same request.
#[derive(Clone)]
pub struct RequestRate(Arc<RequestRateParts>);

struct RequestRateParts {
    backend: Backend,
    address: Option<IpAddr>,
    /// The state of the client's limit, once the request was counted.
    state: OnceLock<Option<RateState>>,
}

impl RequestRate {
    /// Returns the limit of a request that was not counted yet.
    pub fn new(backend: &Backend, request: &Request) -> Self {
        Self(Arc::new(RequestRateParts {
            backend: backend.clone(),
            address: client_address::network(request),
            state: OnceLock::new(),
        }))
    }

    /// Counts the request for a client. Further calls do not count it again and return the same result.
    ///
    /// # Errors
    /// [`Error::RateLimited`] above the limit of the client.
    fn count(&self, client: Option<RateClient>) -> Result<()> {
        let client = client.unwrap_or(RateClient::Address(self.0.address));
        let state = self
            .0
            .state
            .get_or_init(|| self.0.backend.budgets.requests.count(client));
        let setting = match client {
            RateClient::Address(_) => "requests_per_minute_per_address",
            _ => "requests_per_minute_per_user",
        };
        match state.and_then(|state| state.retry_in) {
            Some(wait) => Err(Error::RateLimited(seconds(wait).max(1)).because_of(setting)),
            None => Ok(()),
        }
    }

    /// Counts the request for its address.
    ///
    /// # Errors
    /// [`Error::RateLimited`] above the limit of the address.
    pub fn count_address(&self) -> Result<()> {
        self.count(None)
    }

    /// Limits the rest of the current request to the share of its address of the database connections.
    pub fn use_database_share_of_address(&self) {
        self.use_database_share(None);
    }

    fn use_database_share(&self, client: Option<RateClient>) {
        let client = client.unwrap_or(RateClient::Address(self.0.address));
        self.0.backend.budgets.use_database_share(client);
    }

    /// Returns the state of the client's limit; `None` if the request was not counted or the client is not limited.
    pub fn state(&self) -> Option<RateState> {
        self.0.state.get().copied().flatten()
    }
}

/// Counts a request for its caller, and records the caller for the access log. A request without a caller, for example
/// with invalid credentials, is counted for its address.
///
/// # Errors
/// [`Error::RateLimited`] above the limit.
pub fn count(request: &Request, caller: Option<&Caller>) -> Result<()> {
    if let Some(user) = caller.and_then(Caller::as_user) {
        access_record::record_user(request, user.id);
    }
    match request.data::<RequestRate>() {
        Some(rate) => rate.count(caller.and_then(Caller::rate_client)),
        None => Ok(()),
    }
}

/// Returns the client whose requests are counted: that of the caller, or the address.
pub fn client(request: &Request, caller: &Caller) -> RateClient {
    let address = || RateClient::Address(client_address::network(request));
    caller.rate_client().unwrap_or_else(address)
}

/// Limits the rest of a request to its client's share of the database connections. Responses from the cache need none.
pub fn use_database_share(request: &Request, caller: &Caller) {
    if let Some(rate) = request.data::<RequestRate>() {
        rate.use_database_share(caller.rate_client());
    }
}

/// Returns a duration in seconds, rounded up.
pub fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
