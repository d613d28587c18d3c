//! The application: handlers over a backend, and the complete request pipeline.

use std::collections::BTreeSet;

use domain::kernel::Backend;
use poem::{Endpoint, EndpointExt, Route};
use poem_openapi::registry::MetaApi;
use poem_openapi::{OpenApi, OpenApiService};

use crate::api::edge::Edge;
use crate::api::routes;
use crate::config::ServerSettings;
use crate::web;
use crate::web::git_http::GitHttpMiddleware;
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
    let edge = Edge::new(
        App {
            backend: backend.clone(),
        },
        backend.clone(),
    );
    let api = OpenApiService::new(routes::routes(edge), "Holdfast API", env!("CARGO_PKG_VERSION"));
    let routes = Route::new()
        .nest("/docs", web::docs::routes())
        .at("/api/v4/openapi.json", poem::get(web::docs::json))
        .at("/api/v4/openapi.yaml", poem::get(web::docs::yaml))
        .nest("/-", web::health::routes(backend))
        .at("/-/session", web::sign_in::session_route(backend))
        .nest("/users", web::sign_in::routes(backend))
        .nest("/oauth", web::oauth::routes(backend))
        .at(web::oauth::METADATA_PATH, web::oauth::metadata_route(backend))
        .nest("/", api);
    let git = GitHttpMiddleware {
        backend: backend.clone(),
        max_push_bytes: settings.max_push_bytes,
    };
    let uploads = UploadMiddleware {
        backend: backend.clone(),
    };
    let registry = RegistryMiddleware {
        backend: backend.clone(),
    };
    web::wrap(routes.with(git).with(uploads).with(registry), backend, settings).boxed()
}

/// Returns `method path operationId status` of all routes, for comparison with the document.
#[must_use]
pub fn routed() -> BTreeSet<String> {
    fn known<A: OpenApi>(_: impl FnOnce(Edge<App>) -> A) -> Vec<MetaApi> {
        A::meta()
    }
    let paths = known(routes::routes::<App>).into_iter().flat_map(|api| api.paths);
    let operations = paths.flat_map(|path| {
        path.operations.into_iter().map(move |operation| {
            let status = operation
                .responses
                .responses
                .first()
                .and_then(|response| response.status);
            let (method, id) = (
                operation.method.as_str().to_lowercase(),
                operation.operation_id.unwrap_or_default(),
            );
            let template = templated(&path.path);
            format!("{method} {template} {id} {}", status.unwrap_or_default())
        })
    });
    operations.collect()
}

/// Converts a path to the syntax of the document. The router's syntax shows whether a placeholder is only
/// part of a segment.
fn templated(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment.split_once(':') {
        Some((before, name)) => format!("{before}{{{name}}}"),
        None => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}
