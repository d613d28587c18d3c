//! Counts each request once for its client, and refuses it above the limit of requests per minute (ADR 41). A request with
//! a body is also refused if the client has sent too many bytes (ADR 86).

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use domain::kernel::Backend;
use domain::kernel::budgets::{GitTime, RateClient, RateState};
use domain::kernel::caller::Caller;
use domain::kernel::error::{Error, Result};
use futures_util::Stream;
use futures_util::stream::BoxStream;
use poem::{Body, Request};

use crate::api::access_record;
use crate::api::client_address;

/// Number of received bytes that are charged to a client together.
const CHARGED_BYTES: u64 = 1 << 20;

/// The limit of one request; attached to every limited request. Clones refer to the same request.
#[derive(Clone)]
pub struct RequestRate(Arc<RequestRateParts>);

struct RequestRateParts {
    backend: Backend,
    address: Option<IpAddr>,
    has_body: bool,
    /// The client and its limits, once the request was counted.
    counted: OnceLock<Counted>,
    /// Processor time of the Git programs of the request.
    git_time: OnceLock<GitTime>,
}

/// A request that was counted.
struct Counted {
    client: RateClient,
    /// The state of the limit of requests; `None` if the client is not limited.
    state: Option<RateState>,
    /// Time that the client must wait because it has sent too many bytes.
    wait_for_bytes: Option<Duration>,
}

impl RequestRate {
    /// Returns the limit of a request that was not counted yet, and charges the body of the request to its client.
    pub fn new(backend: &Backend, request: &mut Request) -> Self {
        let body = request.take_body();
        let rate = Self(Arc::new(RequestRateParts {
            backend: backend.clone(),
            address: client_address::network(request),
            has_body: !body.is_empty(),
            counted: OnceLock::new(),
            git_time: OnceLock::new(),
        }));
        let is_charged = rate.0.has_body && backend.budgets.received_bytes.limit() > 0;
        request.set_body(match is_charged {
            true => Body::from_bytes_stream(ChargedBody {
                inner: Box::pin(body.into_bytes_stream()),
                rate: rate.clone(),
                uncharged: 0,
            }),
            false => body,
        });
        rate
    }

    /// Counts the request for a client. Further calls do not count it again and return the same result.
    ///
    /// # Errors
    /// [`Error::RateLimited`] above a limit of the client.
    fn count(&self, client: Option<RateClient>) -> Result<()> {
        let client = client.unwrap_or(RateClient::Address(self.0.address));
        let budgets = &self.0.backend.budgets;
        let counted = self.0.counted.get_or_init(|| {
            let state = budgets.requests.count(client);
            let is_permitted = state.is_none_or(|state| state.retry_in.is_none());
            let is_checked = is_permitted && self.0.has_body;
            Counted {
                client,
                state,
                wait_for_bytes: is_checked.then(|| budgets.received_bytes.wait(client)).flatten(),
            }
        });
        let setting = match client {
            RateClient::Address(_) => "requests_per_minute_per_address",
            _ => "requests_per_minute_per_user",
        };
        let for_requests = counted.state.and_then(|state| state.retry_in);
        let for_requests = for_requests.map(|wait| (wait, setting));
        let for_bytes = counted
            .wait_for_bytes
            .map(|wait| (wait, "received_bytes_per_client"));
        match for_requests.or(for_bytes) {
            Some((wait, setting)) => Err(Error::RateLimited(seconds(wait).max(1)).because_of(setting)),
            None => Ok(()),
        }
    }

    /// Charges received bytes to the client of the request, or to its address if the caller is not known.
    fn charge(&self, bytes: u64) {
        let client = self.0.counted.get().map(|counted| counted.client);
        let client = client.unwrap_or(RateClient::Address(self.0.address));
        self.0.backend.budgets.received_bytes.charge(client, bytes);
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
        self.0.counted.get()?.state
    }
}

/// A body whose bytes are charged to the client of the request, also if the client does not send the rest.
struct ChargedBody {
    inner: BoxStream<'static, io::Result<Bytes>>,
    rate: RequestRate,
    /// Number of received bytes that were not charged yet.
    uncharged: u64,
}

impl Stream for ChargedBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.inner.as_mut().poll_next(context));
        if let Some(Ok(piece)) = &next {
            self.uncharged += piece.len() as u64;
            if self.uncharged >= CHARGED_BYTES {
                self.rate.charge(self.uncharged);
                self.uncharged = 0;
            }
        }
        Poll::Ready(next)
    }
}

impl Drop for ChargedBody {
    fn drop(&mut self) {
        if self.uncharged > 0 {
            self.rate.charge(self.uncharged);
        }
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

/// Returns the processor time of the Git programs of a request, which is the same in each call.
pub fn git_time(request: &Request, backend: &Backend, caller: &Caller) -> GitTime {
    let new = || GitTime::new(&backend.budgets.git_time, client(request, caller));
    match request.data::<RequestRate>() {
        Some(rate) => rate.0.git_time.get_or_init(new).clone(),
        None => new(),
    }
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
