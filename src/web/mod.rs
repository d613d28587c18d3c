//! Endpoints outside the REST API, and the middleware of every request: request IDs, logs, limits and errors.

mod access_log;
mod browser;
mod compress;
pub mod connections;
mod cors;
pub mod docs;
mod endpoint_kind;
mod errors;
mod extra_slashes;
pub mod git_http;
mod headers;
pub mod health;
mod limits;
pub mod oauth;
mod packages;
mod page;
pub mod pages;
mod rate_limit;
pub mod registry;
mod second_factor;
pub mod sign_in;
mod trace;
mod two_factor;
pub mod uploads;

use domain::kernel::Backend;
use poem::{Endpoint, EndpointExt, Response};

use crate::api::client_address::TrustedProxies;
use crate::api::exchange::BaseUrl;
use crate::config::ServerSettings;

/// Wraps the routes in the middleware of every request, outermost last.
pub fn wrap<E>(
    routes: E,
    backend: &Backend,
    settings: &ServerSettings,
) -> impl Endpoint<Output = Response> + use<E>
where
    E: Endpoint + 'static,
{
    routes
        .before(packages::paths::encode_scope)
        .before(extra_slashes::remove_extra_slash)
        .with(errors::ErrorMiddleware {
            time_limit: settings.request_timeout,
        })
        .with(limits::HeadLimits)
        .with(registry::RegistryErrorMiddleware)
        .with(rate_limit::RateLimitMiddleware {
            backend: backend.clone(),
        })
        .with(cors::CorsMiddleware {
            origins: settings.cors_origins.clone(),
            compat: settings.compat,
        })
        .with(headers::HeaderMiddleware {
            compat: settings.compat,
            is_https: backend.instance.base_url.starts_with("https://"),
        })
        .with(compress::Compression)
        .with(trace::TraceMiddleware)
        .data(TrustedProxies(settings.trusted_proxies.clone()))
        .data(BaseUrl(backend.instance.base_url.as_str().into()))
        .map_to_response()
}
