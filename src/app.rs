//! The application: the handlers over one backend, and the whole of what a request meets.

use poem::{Endpoint, EndpointExt, Route};
use poem_openapi::OpenApiService;

use crate::api::contract;
use crate::api::edge::Edge;
use crate::config::Settings;
use crate::services::Backend;
use crate::web;
use crate::web::git_http::GitHttp;

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
            contract::BranchesRoutes(edge.clone()),
            contract::CommitsRoutes(edge.clone()),
            contract::ImpersonationTokensRoutes(edge.clone()),
            contract::MetadataRoutes(edge.clone()),
            contract::PersonalAccessTokensRoutes(edge.clone()),
            contract::RepositoriesRoutes(edge.clone()),
            contract::RepositoryFilesRoutes(edge.clone()),
            contract::TagsRoutes(edge.clone()),
            contract::UsersRoutes(edge.clone()),
        ),
        "Holdfast API",
        env!("CARGO_PKG_VERSION"),
    );
    let routes = Route::new()
        .nest("/docs", web::docs::routes())
        .at("/api/v4/openapi.json", poem::get(web::docs::json))
        .at("/api/v4/openapi.yaml", poem::get(web::docs::yaml))
        .nest("/-", web::health::routes(backend))
        .at("/-/session", web::sign_in::session_route(backend))
        .nest("/users", web::sign_in::routes(backend))
        .nest("/", api);
    let git = GitHttp {
        backend: backend.clone(),
        max_push_bytes: settings.max_push_bytes,
    };
    web::wrap(routes.with(git), backend, settings).boxed()
}
