//! The container registry at `/v2/` by OCI Distribution 1.1, and its tokens at `/jwt/auth`.
//!
//! It is not part of the REST API: its clients are container tools, bodies are streamed in both directions, and
//! errors have the protocol's format. Rules and storage are in `domain::registry`.

mod blobs;
mod endpoint;
mod manifests;
mod responses;
mod tokens;
mod uploads;

use domain::kernel::Backend;
use domain::registry::tokens::{TokenBearer, TokenChallenge, TokenRejection};
use domain::registry::{ImageName, RegistryAction, RegistryActions, RegistryError, RepositoryPath};
use endpoint::{Target, What};
use poem::http::header::AUTHORIZATION;
use poem::http::{Method, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

pub(super) use endpoint::takes_long;

/// Middleware that handles registry requests and forwards all others.
pub struct Registry {
    /// The backend of the services.
    pub backend: Backend,
}

impl<E: Endpoint> Middleware<E> for Registry {
    type Output = RegistryEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        RegistryEndpoint {
            inner,
            protocol: Protocol {
                backend: self.backend.clone(),
            },
        }
    }
}

/// See [`Registry`].
pub struct RegistryEndpoint<E> {
    inner: E,
    protocol: Protocol,
}

impl<E: Endpoint> Endpoint for RegistryEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let response = match Target::of(request.uri().path()) {
            None => return self.inner.call(request).await.map(IntoResponse::into_response),
            Some(Err(fault)) => responses::refused(&fault),
            Some(Ok(target)) => self.protocol.answer(target, request).await,
        };
        Ok(responses::finish(response))
    }
}

/// Middleware that converts errors from outside the registry, such as limits and timeouts, to the protocol's
/// format.
pub(super) struct Form;

impl<E: Endpoint> Middleware<E> for Form {
    type Output = FormEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        FormEndpoint { inner }
    }
}

/// See [`Form`].
pub(super) struct FormEndpoint<E> {
    inner: E,
}

impl<E: Endpoint> Endpoint for FormEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let ours = endpoint::is_registrys(request.uri().path());
        let response = self.inner.call(request).await?.into_response();
        let failed = response.status().is_client_error() || response.status().is_server_error();
        Ok(match ours && failed && !responses::is_finished(&response) {
            true => responses::formed(response).await,
            false => response,
        })
    }
}

/// The protocol over a backend.
struct Protocol {
    backend: Backend,
}

impl Protocol {
    async fn answer(&self, target: Target, request: Request) -> Response {
        let (name, what) = match target {
            Target::Tokens => return tokens::answer(&self.backend, &request).await,
            Target::Base => return self.base(&request).await,
            Target::Nothing => {
                let text = "the operation is unsupported";
                return responses::error(StatusCode::NOT_FOUND, "UNSUPPORTED", text, None);
            }
            Target::Of(name, what) => (name, what),
        };
        let Some(action) = action(&what, request.method()) else {
            return responses::not_allowed(methods(&what));
        };
        let base_url = &self.backend.instance.base_url;
        let asked = Some((&name, wanted(action)));
        let admitted = async {
            let bearer = self.bearer(&request).await?;
            let place = bearer.authorize(&self.backend, &name, action).await?;
            Ok::<_, TokenRejection>((bearer, place))
        };
        match admitted.await {
            Err(refusal) => responses::turned_away(base_url, &refusal, asked),
            Ok((bearer, place)) => {
                let call = Call {
                    backend: &self.backend,
                    bearer,
                    place,
                };
                let answer = call.answer(what, request).await;
                answer.unwrap_or_else(|fault| responses::refused(&fault))
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
            Err(refusal) => responses::turned_away(&self.backend.instance.base_url, &refusal, None),
        }
    }

    async fn bearer(&self, request: &Request) -> Result<TokenBearer, TokenRejection> {
        let token = request.headers().get(AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        match token {
            Some(token) => TokenBearer::from_token(&self.backend, token).await,
            None => Err(TokenRejection::Challenge(TokenChallenge::Missing)),
        }
    }
}

/// An authorized request.
struct Call<'a> {
    backend: &'a Backend,
    bearer: TokenBearer,
    place: RepositoryPath,
}

impl Call<'_> {
    async fn answer(&self, what: What, request: Request) -> Result<Response, RegistryError> {
        match what {
            What::Tags => self.tags(&request).await,
            What::Referrers(digest) => self.referrers(&digest, &request).await,
            What::Manifest(reference) => self.manifest(&reference, request).await,
            What::Blob(digest) => self.blob(&digest, &request).await,
            What::Uploads => self.begin(request).await,
            What::Upload(uuid) => self.upload(&uuid, request).await,
        }
    }

    fn name(&self) -> &ImageName {
        &self.place.name
    }
}

/// Returns the action of a request on its target; none if not supported.
fn action(what: &What, method: &Method) -> Option<RegistryAction> {
    let read = matches!(*method, Method::GET | Method::HEAD);
    match what {
        What::Tags | What::Referrers(_) => read.then_some(RegistryAction::Pull),
        What::Manifest(_) | What::Blob(_) if read => Some(RegistryAction::Pull),
        What::Manifest(_) if *method == Method::PUT => Some(RegistryAction::Push),
        What::Manifest(reference) if *method == Method::DELETE => Some(match reference.contains(':') {
            true => RegistryAction::Destroy,
            false => RegistryAction::Delete,
        }),
        What::Blob(_) if *method == Method::DELETE => Some(RegistryAction::Destroy),
        What::Uploads if *method == Method::POST => Some(RegistryAction::Push),
        What::Upload(_) => {
            let known = matches!(
                *method,
                Method::GET | Method::PATCH | Method::PUT | Method::DELETE
            );
            known.then_some(RegistryAction::Push)
        }
        What::Manifest(_) | What::Blob(_) | What::Uploads => None,
    }
}

/// Returns the methods of a target.
fn methods(what: &What) -> &'static str {
    match what {
        What::Tags | What::Referrers(_) => "GET, HEAD",
        What::Manifest(_) => "DELETE, GET, HEAD, PUT",
        What::Blob(_) => "DELETE, GET, HEAD",
        What::Uploads => "POST",
        What::Upload(_) => "DELETE, GET, PATCH, PUT",
    }
}

/// Returns the access that a token must grant for an action. A push also needs pull access.
fn wanted(action: RegistryAction) -> RegistryActions {
    RegistryActions {
        pull: matches!(action, RegistryAction::Pull | RegistryAction::Push),
        push: action == RegistryAction::Push,
        delete: matches!(action, RegistryAction::Delete | RegistryAction::Destroy),
    }
}

/// Returns a decoded query parameter.
fn parameter(request: &Request, wanted: &str) -> Option<String> {
    parameters(request, wanted).into_iter().next()
}

/// Returns all values of a decoded query parameter.
fn parameters(request: &Request, wanted: &str) -> Vec<String> {
    let query = request.uri().query().unwrap_or_default();
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let values = pairs.filter(|(name, _)| name == wanted);
    values.map(|(_, value)| value.into_owned()).collect()
}
