//! Cache of responses to read requests, valid until the next database write (ADR 17).
//!
//! The response to a read request (JSON or the bytes of a small file) depends only on the database and the
//! references of repositories. Each reference change is recorded in the database before it is reported. So the
//! same request of the same caller has the same response while the database version is unchanged.

use std::sync::Arc;

use bytes::Bytes;
use domain::kernel::cache::{DataVersion, VersionedCache};
use domain::kernel::caller::Caller;
use poem::http::{HeaderMap, StatusCode};
use poem::{Body, Response};
use sha2::{Digest, Sha256};

/// Maximum total size of cached responses, in bytes.
const MAX_CACHE_BYTES: u64 = 16 << 20;

/// Maximum size of a cached response, in bytes.
const MAX_RESPONSE_BYTES: usize = 256 << 10;

/// Approximate size of a response in addition to its body, in bytes.
const OVERHEAD: usize = 1_024;

/// Key of a cacheable response: the caller, the request, and the database version.
pub struct CacheKey {
    digest: [u8; 32],
    version: DataVersion,
}

impl CacheKey {
    /// Returns the key of a request of a caller whose response depends only on the URL.
    pub(super) fn new(uri: &str, caller: &Caller, version: DataVersion) -> Self {
        let user = caller.as_user().map_or(0, |user| user.id);
        let token = caller.access_token().map_or(0, |token| token.id);
        let mut digest = Sha256::new();
        digest.update(user.to_le_bytes());
        digest.update(token.to_le_bytes());
        digest.update(caller.only_project().unwrap_or_default().to_le_bytes());
        let provider = caller.saml_provider().map_or(0, |provider| provider.id);
        digest.update(provider.to_le_bytes());
        digest.update(caller.scopes().unwrap_or("*"));
        // Hashed also because a query may contain a token.
        digest.update(uri);
        Self {
            digest: digest.finalize().into(),
            version,
        }
    }
}

/// The cached responses.
pub(super) struct ResponseCache(VersionedCache<[u8; 32], Arc<CachedResponse>>);

struct CachedResponse {
    headers: HeaderMap,
    body: Bytes,
}

impl Default for ResponseCache {
    fn default() -> Self {
        Self(VersionedCache::new(MAX_CACHE_BYTES, |response| {
            response.body.len() + OVERHEAD
        }))
    }
}

impl ResponseCache {
    /// Returns the cached response of a request.
    pub(super) fn get(&self, key: &CacheKey) -> Option<Response> {
        let cached = self.0.get(key.version, &key.digest)?;
        let mut response = Response::builder().body(cached.body.clone());
        *response.headers_mut() = cached.headers.clone();
        Some(response)
    }

    /// Caches a response and returns it. Only successful responses of a moderate size are cached.
    pub(super) fn insert(&self, key: CacheKey, response: Response) -> Response {
        let Some(WholeBody(body)) = response.extensions().get::<WholeBody>() else {
            return response;
        };
        if response.status() == StatusCode::OK && body.len() <= MAX_RESPONSE_BYTES {
            let cached = CachedResponse {
                headers: response.headers().clone(),
                body: body.clone(),
            };
            self.0.insert(key.version, key.digest, Arc::new(cached));
        }
        response
    }
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
