//! Cache of responses to read requests, valid until the next database write (ADR 50).
//!
//! The response to a read request (JSON or the bytes of a small file) depends only on the database and the
//! references of repositories. Each reference change is recorded in the database before it is reported. So the
//! same request of the same caller has the same response while the database version is unchanged.
//!
//! If several requests miss the same response, the first one computes it and the others wait.

use std::sync::Arc;

use bytes::Bytes;
use cache::CacheUsage;
use contract::operation::{Operation, ParameterLocation};
use domain::kernel::budgets::RateClient;
use domain::kernel::cache::{DataVersion, VersionedCache};
use domain::kernel::caller::Caller;
use poem::http::{HeaderMap, StatusCode};
use poem::{Body, Request, Response};
use sha2::{Digest, Sha256};

use crate::api::coalescing::{Computation, Computations, Joined};
use crate::observability::table::{CACHE_HITS, CACHE_MISSES};

/// Maximum size of a cached response, in bytes.
const MAX_RESPONSE_BYTES: usize = 256 << 10;

/// Approximate size of a response in addition to its body, in bytes.
const OVERHEAD: usize = 1_024;

/// Key of a cacheable response: the caller, the request, and the database version.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CacheKey {
    digest: [u8; 32],
    version: DataVersion,
}

impl CacheKey {
    /// Returns the key of a request of a caller whose response depends only on the URL and the header parameters.
    pub(super) fn new(
        operation: &Operation,
        request: &Request,
        caller: &Caller,
        version: DataVersion,
    ) -> Self {
        let user = caller.as_user().map_or(0, |user| user.id);
        let token = caller.access_token().map_or(0, |token| token.id);
        let mut digest = Sha256::new();
        digest.update(user.to_le_bytes());
        digest.update(token.to_le_bytes());
        digest.update(caller.job_project().unwrap_or_default().to_le_bytes());
        let deploy_token = caller.deploy_token().map_or(0, |token| token.id);
        digest.update(deploy_token.to_le_bytes());
        let provider = caller.saml_provider().map_or(0, |provider| provider.id);
        digest.update(provider.to_le_bytes());
        digest.update(caller.scopes().unwrap_or("*"));
        let headers = operation
            .parameters
            .iter()
            .filter(|parameter| parameter.location == ParameterLocation::Header);
        for parameter in headers {
            let value = request.headers().get(parameter.name);
            let value = value.map_or(&[][..], |value| value.as_bytes());
            // With its length, so that two values cannot be confused with others.
            digest.update(value.len().to_le_bytes());
            digest.update(value);
        }
        // Hashed also because a query may contain a token.
        digest.update(request.original_uri().to_string());
        Self {
            digest: digest.finalize().into(),
            version,
        }
    }
}

/// Key of a computation. Clients with separate shares of the database do not wait for each other (ADR 41).
type ComputationKey = (CacheKey, RateClient);

/// The cached responses. Clones share them.
#[derive(Clone)]
pub struct ResponseCache(Arc<ResponseCacheParts>);

struct ResponseCacheParts {
    responses: VersionedCache<[u8; 32], Arc<CachedResponse>>,
    computations: Computations<ComputationKey, Arc<CachedResponse>>,
    is_enabled: bool,
}

struct CachedResponse {
    headers: HeaderMap,
    body: Bytes,
}

impl CachedResponse {
    fn response(&self) -> Response {
        let mut response = Response::builder().body(self.body.clone());
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// Result of a search for a response.
pub(super) enum Found {
    /// The response and its whole body.
    Response(Box<Response>, WholeBody),
    /// The response is not cached, and the request has to compute it.
    Missing(Box<MissingResponse>),
}

impl Found {
    fn cached(response: &CachedResponse) -> Self {
        metrics::counter!(CACHE_HITS.name).increment(1);
        Self::Response(Box::new(response.response()), WholeBody(response.body.clone()))
    }
}

/// A response that a request computes, and that other requests may wait for.
pub struct MissingResponse {
    key: CacheKey,
    /// None if no requests wait for it.
    computation: Option<Computation<ComputationKey, Arc<CachedResponse>>>,
}

impl ResponseCache {
    /// Creates a cache of at most `max_bytes`. With 0, all requests compute their responses.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        Self(Arc::new(ResponseCacheParts {
            responses: VersionedCache::new(max_bytes, |_, (_, response)| response.body.len() + OVERHEAD),
            computations: Computations::default(),
            is_enabled: max_bytes > 0,
        }))
    }

    /// Returns the use of the cache now.
    #[must_use]
    pub fn usage(&self) -> CacheUsage {
        self.0.responses.usage()
    }

    /// Returns whether responses are cached.
    pub(super) fn is_enabled(&self) -> bool {
        self.0.is_enabled
    }

    /// Returns the cached response of a request. If another request of the same client computes it, waits for it.
    ///
    /// A response of the same version is exact, although its computation may have started before this request: no commit was
    /// made between the start and the moment at which this request read the version.
    pub(super) async fn find(&self, key: CacheKey, client: RateClient) -> Found {
        let cached = |key: &CacheKey| self.0.responses.get(key.version, &key.digest);
        if let Some(cached) = cached(&key) {
            return Found::cached(&cached);
        }
        let computation = match self.0.computations.join((key.clone(), client)).await {
            Joined::Finished(computed) => return Found::cached(&computed),
            Joined::Unshared => None,
            Joined::First(computation) => Some(computation),
        };
        // The last computation may have ended after the first look.
        if let Some(cached) = cached(&key) {
            return Found::cached(&cached);
        }
        metrics::counter!(CACHE_MISSES.name).increment(1);
        Found::Missing(Box::new(MissingResponse { key, computation }))
    }

    /// Caches a response and returns it. Only successful responses of a moderate size are cached and shared.
    pub(super) fn insert(&self, missing: MissingResponse, response: Response) -> Response {
        let MissingResponse { key, computation } = missing;
        let computed = cacheable(&response);
        if let Some(computed) = &computed {
            self.0
                .responses
                .insert(key.version, key.digest, Arc::clone(computed));
        }
        if let Some(computation) = computation {
            computation.finish(computed);
        }
        response
    }
}

fn cacheable(response: &Response) -> Option<Arc<CachedResponse>> {
    let WholeBody(body) = response.extensions().get::<WholeBody>()?;
    let is_cacheable = response.status() == StatusCode::OK && body.len() <= MAX_RESPONSE_BYTES;
    is_cacheable.then(|| {
        Arc::new(CachedResponse {
            headers: response.headers().clone(),
            body: body.clone(),
        })
    })
}

/// The whole body of a response as an extension, because the response's own body can be read only once.
#[derive(Clone)]
pub(super) struct WholeBody(pub(super) Bytes);

impl WholeBody {
    /// Returns the body to send.
    pub(super) fn body(&self) -> Body {
        self.0.clone().into()
    }
}
