//! The container registry at `/v2/` by OCI Distribution 1.1, and its tokens at `/jwt/auth`.
//!
//! It is not part of the REST API: its clients are container tools, bodies are streamed in both directions, and
//! errors have the protocol's format. Rules and storage are in `domain::registry`.

mod blobs;
mod manifests;
mod responses;
mod tokens;
mod uploads;

use domain::kernel::Backend;
use domain::kernel::budgets::RequestMemory;
use domain::registry::tokens::{TokenBearer, TokenChallenge, TokenRejection};
use domain::registry::{ImageName, RegistryAction, RegistryActions, RegistryError, RepositoryPath};
use parsers::registry::{self as paths, RegistryPath, RepositoryResource};
use poem::http::header::AUTHORIZATION;
use poem::http::{Method, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

pub(super) use parsers::registry::accepts_large_body;

use crate::api::{request_rate, response_memory};

/// Middleware that handles registry requests and forwards all others.
pub struct RegistryMiddleware {
    /// The backend of the services.
    pub backend: Backend,
}

impl<E: Endpoint> Middleware<E> for RegistryMiddleware {
    type Output = RegistryEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        RegistryEndpoint {
            inner,
            protocol: RegistryProtocol {
                backend: self.backend.clone(),
            },
        }
    }
}

/// See [`RegistryMiddleware`].
pub struct RegistryEndpoint<E> {
    inner: E,
    protocol: RegistryProtocol,
}

impl<E: Endpoint> Endpoint for RegistryEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let response = match RegistryPath::of(request.uri().path()) {
            None => return self.inner.call(request).await.map(IntoResponse::into_response),
            Some(Err(error)) => responses::from_error(&error.into()),
            Some(Ok(target)) => self.protocol.answer(target, request).await,
        };
        Ok(responses::finish(response))
    }
}

/// Middleware that converts errors from outside the registry, such as limits and timeouts, to the protocol's
/// format.
pub(super) struct RegistryErrorMiddleware;

impl<E: Endpoint> Middleware<E> for RegistryErrorMiddleware {
    type Output = FormEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        FormEndpoint { inner }
    }
}

/// See [`RegistryErrorMiddleware`].
pub(super) struct FormEndpoint<E> {
    inner: E,
}

impl<E: Endpoint> Endpoint for FormEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let ours = paths::is_registry_path(request.uri().path());
        let response = self.inner.call(request).await?.into_response();
        let failed = response.status().is_client_error() || response.status().is_server_error();
        Ok(match ours && failed && !responses::is_finished(&response) {
            true => responses::to_registry_format(response).await,
            false => response,
        })
    }
}

/// The protocol over a backend.
struct RegistryProtocol {
    backend: Backend,
}

impl RegistryProtocol {
    async fn answer(&self, target: RegistryPath, request: Request) -> Response {
        let (name, resource) = match target {
            RegistryPath::Tokens => return tokens::answer(&self.backend, &request).await,
            RegistryPath::Base => return self.base(&request).await,
            RegistryPath::Nothing => {
                let text = "the operation is unsupported";
                return responses::error(StatusCode::NOT_FOUND, "UNSUPPORTED", text, None);
            }
            RegistryPath::Of(name, resource) => (name, resource),
        };
        let Some(action) = action(&resource, request.method()) else {
            return responses::not_allowed(methods(&resource));
        };
        let base_url = &self.backend.instance.base_url;
        let required_access = Some((&name, required_actions(action)));
        let admitted = async {
            let bearer = self.bearer(&request).await?;
            let repository_path = bearer.authorize(&self.backend, &name, action).await?;
            Ok::<_, TokenRejection>((bearer, repository_path))
        };
        match admitted.await {
            Err(rejection) => responses::rejection(base_url, &rejection, required_access),
            Ok((bearer, repository_path)) => {
                let user_id = bearer.caller().as_user().map(|user| user.id);
                let call = RegistryCall {
                    backend: &self.backend,
                    bearer,
                    repository_path,
                    memory: response_memory::of_request(&self.backend, &request, user_id),
                };
                let answer = call.answer(resource, request).await;
                answer.unwrap_or_else(|fault| responses::from_error(&fault))
            }
        }
    }

    /// Confirms that the registry exists; clients send this request first.
    async fn base(&self, request: &Request) -> Response {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return responses::not_allowed("GET, HEAD");
        }
        match self.bearer(request).await {
            Ok(_) => responses::document("application/json", "{}".to_owned()),
            Err(rejection) => responses::rejection(&self.backend.instance.base_url, &rejection, None),
        }
    }

    async fn bearer(&self, request: &Request) -> Result<TokenBearer, TokenRejection> {
        let token = request.headers().get(AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let bearer = match token {
            Some(token) => TokenBearer::from_token(&self.backend, token).await,
            None => Err(TokenRejection::Challenge(TokenChallenge::Missing)),
        };
        request_rate::count(request, bearer.as_ref().ok().map(TokenBearer::caller))?;
        let bearer = bearer?;
        request_rate::use_database_share(request, bearer.caller());
        Ok(bearer)
    }
}

/// An authorized request.
struct RegistryCall<'a> {
    backend: &'a Backend,
    bearer: TokenBearer,
    repository_path: RepositoryPath,
    /// Memory of a manifest or a list, until the client has received it.
    memory: RequestMemory,
}

impl RegistryCall<'_> {
    async fn answer(
        &self,
        resource: RepositoryResource,
        request: Request,
    ) -> Result<Response, RegistryError> {
        match resource {
            RepositoryResource::Tags => self.tags(&request).await,
            RepositoryResource::Referrers(digest) => self.referrers(&digest, &request).await,
            RepositoryResource::Manifest(reference) => self.manifest(&reference, request).await,
            RepositoryResource::Blob(digest) => self.blob(&digest, &request).await,
            RepositoryResource::Uploads => self.begin(request).await,
            RepositoryResource::Upload(uuid) => self.upload(&uuid, request).await,
        }
    }

    fn name(&self) -> &ImageName {
        &self.repository_path.name
    }
}

/// Returns the action of a request on its target; none if not supported.
fn action(resource: &RepositoryResource, method: &Method) -> Option<RegistryAction> {
    let read = matches!(*method, Method::GET | Method::HEAD);
    match resource {
        RepositoryResource::Tags | RepositoryResource::Referrers(_) => read.then_some(RegistryAction::Pull),
        RepositoryResource::Manifest(_) | RepositoryResource::Blob(_) if read => Some(RegistryAction::Pull),
        RepositoryResource::Manifest(_) if *method == Method::PUT => Some(RegistryAction::Push),
        RepositoryResource::Manifest(reference) if *method == Method::DELETE => {
            Some(match reference.contains(':') {
                true => RegistryAction::Destroy,
                false => RegistryAction::Delete,
            })
        }
        RepositoryResource::Blob(_) if *method == Method::DELETE => Some(RegistryAction::Destroy),
        RepositoryResource::Uploads if *method == Method::POST => Some(RegistryAction::Push),
        RepositoryResource::Upload(_) => {
            let known = matches!(
                *method,
                Method::GET | Method::PATCH | Method::PUT | Method::DELETE
            );
            known.then_some(RegistryAction::Push)
        }
        RepositoryResource::Manifest(_) | RepositoryResource::Blob(_) | RepositoryResource::Uploads => None,
    }
}

/// Returns the methods of a target.
fn methods(resource: &RepositoryResource) -> &'static str {
    match resource {
        RepositoryResource::Tags | RepositoryResource::Referrers(_) => "GET, HEAD",
        RepositoryResource::Manifest(_) => "DELETE, GET, HEAD, PUT",
        RepositoryResource::Blob(_) => "DELETE, GET, HEAD",
        RepositoryResource::Uploads => "POST",
        RepositoryResource::Upload(_) => "DELETE, GET, PATCH, PUT",
    }
}

/// Returns the access that a token must grant for an action. A push also needs pull access.
fn required_actions(action: RegistryAction) -> RegistryActions {
    RegistryActions {
        pull: matches!(action, RegistryAction::Pull | RegistryAction::Push),
        push: action == RegistryAction::Push,
        delete: matches!(action, RegistryAction::Delete | RegistryAction::Destroy),
    }
}

/// Returns a decoded query parameter.
fn parameter(request: &Request, key: &str) -> Option<String> {
    parameters(request, key).into_iter().next()
}

/// Returns all values of a decoded query parameter.
fn parameters(request: &Request, key: &str) -> Vec<String> {
    let query = request.uri().query().unwrap_or_default();
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let values = pairs.filter(|(name, _)| name == key);
    values.map(|(_, value)| value.into_owned()).collect()
}
