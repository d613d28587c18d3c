//! The application: handlers over a backend, and the complete request pipeline.

use std::sync::{Arc, LazyLock};

use domain::kernel::Backend;
use poem::{Endpoint, EndpointExt, Route};

use crate::api::edge::Edge;
use crate::api::response_cache::ResponseCache;
use crate::api::routes::{OperationsEndpoint, Routes, add_all};
use crate::config::ServerSettings;
use crate::observability::scrape::CacheUsageSource;
use crate::web;
use crate::web::git_http::GitHttpMiddleware;
use crate::web::pages::PageMiddleware;
use crate::web::registry::RegistryMiddleware;
use crate::web::uploads::UploadMiddleware;

/// State of the handlers.
#[derive(Clone)]
pub struct App {
    /// The backend of the services.
    pub backend: Backend,
}

/// Returns the endpoint for all requests.
pub fn endpoint(
    backend: &Backend,
    settings: &ServerSettings,
) -> impl Endpoint<Output = poem::Response> + use<> {
    web::wrap(services(backend, settings), backend, settings).boxed()
}

/// Returns the endpoint for all requests without the middleware of [`web::wrap`].
pub fn services(
    backend: &Backend,
    settings: &ServerSettings,
) -> impl Endpoint<Output = poem::Response> + use<> {
    let cache = ResponseCache::new(settings.caches.responses);
    let edge = Edge::new(
        App {
            backend: backend.clone(),
        },
        backend.clone(),
        cache.clone(),
    );
    let usage: CacheUsageSource = Arc::new(move || cache.usage());
    let others = web::docs::add_documents(Route::new())
        .nest("/docs", web::docs::routes())
        .nest("/-", web::health::routes(backend, Some(usage)))
        .at("/-/session", web::sign_in::session_route(backend))
        .nest("/users", web::sign_in::routes(backend))
        .nest("/oauth", web::oauth::routes(backend))
        .at(web::oauth::METADATA_PATH, web::oauth::metadata_route(backend))
        .at("/", web::docs::root_route());
    let git = GitHttpMiddleware {
        backend: backend.clone(),
        max_push_bytes: settings.max_push_bytes,
    };
    let uploads = UploadMiddleware {
        backend: backend.clone(),
    };
    let pages = PageMiddleware {
        backend: backend.clone(),
    };
    let registry = RegistryMiddleware {
        backend: backend.clone(),
    };
    OperationsEndpoint::new(edge, routes(), others)
        .with(git)
        .with(uploads)
        .with(pages)
        .with(registry)
        .map_to_response()
}

/// Returns the routes of the contract.
#[must_use]
pub fn routes() -> &'static Routes<App> {
    static ROUTES: LazyLock<Routes<App>> = LazyLock::new(|| {
        let mut routes = Routes::default();
        add_all(&mut routes);
        routes
    });
    &ROUTES
}
