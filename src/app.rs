//! The application: the handlers over one backend, and the whole of what a request meets.

use poem::{Endpoint, EndpointExt, Route};
use poem_openapi::OpenApiService;

use crate::api::contract;
use crate::api::edge::Edge;
use crate::config::Settings;
use crate::services::Backend;
use crate::web;

/// The handlers' state.
#[derive(Clone)]
pub struct App {
    /// What the services work with.
    pub backend: Backend,
}

/// Everything the server answers, ready to be served.
pub fn endpoint(backend: &Backend, settings: &Settings) -> impl Endpoint<Output = poem::Response> + use<> {
    let edge = Edge::new(
        App {
            backend: backend.clone(),
        },
        backend.clone(),
    );
    let api = OpenApiService::new(
        (
            contract::MetadataRoutes(edge.clone()),
            contract::GroupMembersRoutes(edge.clone()),
            contract::GroupsRoutes(edge.clone()),
            contract::ProjectMembersRoutes(edge.clone()),
            contract::ProjectsRoutes(edge),
        ),
        "Holdfast API",
        env!("CARGO_PKG_VERSION"),
    );
    let routes = Route::new()
        .nest("/-", web::health::routes(backend))
        .nest("/", api);
    web::wrap(routes, backend, settings).boxed()
}
