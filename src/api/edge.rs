//! The steps around every handler: authentication, validation, authorization and the response.
//!
//! Errors are checked in the order 401, 400, 404, 403 (docs/API-DESIGN.md). Some operations check 404 and 403
//! before 400. These are operations with `first: true`, forms that may contain a file, and bodies that are
//! stored as a file. The path is validated before all.

use std::sync::Arc;

use domain::identity::access::{Admission, Rule};
use domain::identity::authentication;
use domain::instance::settings;
use domain::kernel::Backend;
use domain::kernel::caller::Caller;
use domain::kernel::error::{Error, Result};
use poem::Response;
use poem::http::StatusCode;
use poem::http::header::RANGE;
use poem_openapi::Object;
use poem_openapi::types::ParseFromJSON;
use serde_json::{Map, Value};
use storage::error_chain;

use crate::api::answers::{Answers, Memorable};
use crate::api::credentials;
use crate::api::exchange::Exchange;
use crate::api::failure;
use crate::api::form;
use crate::api::operation::{On, Operation};
use crate::api::parameters::{self, Sent};
use crate::api::reply::{Reply, Success};
use crate::api::revalidation;
use crate::api::spool;

/// Maximum size of a form in addition to its file, in bytes.
const AROUND_A_FILE: u64 = 64 << 10;

/// The edge in front of a handler.
pub struct Edge<H> {
    inner: Arc<Inner<H>>,
}

struct Inner<H> {
    handler: H,
    backend: Backend,
    answers: Answers,
}

impl<H> Clone for Edge<H> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

/// An authorized request: the access values, and the validated input, which has no type yet.
///
/// Up to here all operations share the same code; only [`Admitted::request`] is compiled for each of them.
pub struct Admitted<A> {
    access: A,
    sent: Value,
}

impl<A> Admitted<A> {
    /// Returns the input with the type of the operation.
    ///
    /// # Errors
    /// [`Error::Internal`]: the value was coerced to the type, so a failure is a bug.
    pub fn request<R: ParseFromJSON>(self) -> Result<(A, R)> {
        let request = R::parse_from_json(Some(self.sent));
        let request = request.map_err(|error| Error::internal(error.into_message()))?;
        Ok((self.access, request))
    }
}

/// Request of operations without input.
#[derive(Debug, Object)]
#[oai(write_only_all)]
pub struct NoRequest {}

impl<H> Edge<H> {
    /// Returns an edge in front of `handler`.
    pub fn new(handler: H, backend: Backend) -> Self {
        Self {
            inner: Arc::new(Inner {
                handler,
                backend,
                answers: Answers::default(),
            }),
        }
    }

    /// Returns the handler.
    #[must_use]
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// Returns the cached response to the same request of the same caller, if the database is unchanged.
    /// Otherwise stores the cache key in the exchange, so that the new response is cached.
    pub async fn recall(&self, exchange: &mut Exchange<'_>) -> Option<Response> {
        // A gate may be open for a percentage of the time, so it is evaluated for each request.
        if exchange.operation().flag.is_some() {
            return None;
        }
        // Read before any lookup, so that a concurrent write invalidates the response.
        let version = self.inner.backend.database.version()?;
        let caller = self.identify(exchange).await.ok()?;
        // Other responses do not depend only on the URL.
        let is_cacheable = exchange.is_bare() && !exchange.headers().contains_key(RANGE);
        let uri = || exchange.request().original_uri().to_string();
        let memorable = is_cacheable.then(|| Memorable::new(&uri(), &caller, version));
        exchange.identified = Some(caller);
        let memorable = memorable?;
        let known = self.inner.answers.known(&memorable);
        exchange.memorable = Some(memorable);
        known.map(|answer| revalidation::revalidated(answer, exchange.headers()))
    }

    async fn identify(&self, exchange: &Exchange<'_>) -> Result<Caller> {
        if exchange.operation().access.on == On::Scim {
            let token = credentials::bearer(exchange.request()).ok_or(Error::Unauthorized)?;
            return authentication::by_scim_token(&self.inner.backend, &token).await;
        }
        let query = parameters::query(exchange.raw_query());
        let jobs = exchange.operation().jobs;
        let credentials = credentials::read(exchange.request(), query.as_ref().ok(), jobs);
        authentication::identify(&self.inner.backend, credentials).await
    }

    /// Authorizes a request: identifies the caller, validates the input, finds the resource of the path, and
    /// checks access.
    ///
    /// # Errors
    /// The error of the first failed check.
    pub async fn admit<A: Admission>(&self, exchange: &mut Exchange<'_>) -> Result<Admitted<A>> {
        let operation = exchange.operation();
        let caller = match exchange.identified.take() {
            Some(known) => known,
            None => self.identify(exchange).await?,
        };
        exchange.set_caller(caller.as_user().map(|user| user.id));
        if !caller.is_known() && !operation.access.anonymous {
            return Err(Error::Unauthorized);
        }
        let query = parameters::query(exchange.raw_query());
        let path = exchange.path()?;
        let key = container_key(operation, &path);
        // Check access first: the server must not store the bytes of a caller without permission.
        let is_form = operation.file.is_some() && form::is_form(exchange.headers());
        let carries_file = is_form || operation.raw_body;
        if operation.access.first || carries_file {
            parameters::check_path(operation, &path)?;
            let access = self.look_up::<A>(operation, caller, key).await?;
            let sent = self.read(exchange, &path, query?).await?;
            return Ok(Admitted { access, sent });
        }
        let sent = self.read(exchange, &path, query?).await?;
        let access = self.look_up::<A>(operation, caller, key).await?;
        Ok(Admitted { access, sent })
    }

    async fn look_up<A: Admission>(
        &self,
        operation: &Operation,
        caller: Caller,
        key: Option<&str>,
    ) -> Result<A> {
        let gate = |later| {
            let gate = operation.flag.as_ref().filter(|gate| gate.later == later);
            gate.map(|gate| (gate.name, gate.default))
        };
        let rule = Rule {
            access: operation.access,
            scopes: operation.scopes,
            tier: operation.tier,
            flag: gate(false),
            later: gate(true),
            jobs: operation.jobs,
            read: operation.is_read(),
        };
        A::admit(&self.inner.backend, caller, key, &rule).await
    }

    /// Returns the whole input, checked and coerced.
    async fn read(
        &self,
        exchange: &mut Exchange<'_>,
        path: &[(&'static str, String)],
        query: Map<String, Value>,
    ) -> Result<Value> {
        let operation = exchange.operation();
        let body = if operation.raw_body {
            let file = self.inner.backend.objects.spool().map_err(Error::internal)?;
            spool::json(exchange, file).await?;
            Map::new()
        } else if let Some(file) = &operation.file
            && form::is_form(exchange.headers())
        {
            let backend = &self.inner.backend;
            let limit = match file.attachment {
                true => {
                    let largest = settings::read(backend).await?.max_attachment_bytes();
                    operation.body_limit.min(largest.saturating_add(AROUND_A_FILE))
                }
                false => operation.body_limit,
            };
            form::read(exchange, limit, || {
                backend.objects.spool().map_err(Error::internal)
            })
            .await?
        } else {
            // The size limit of a file does not apply to text, which is read into memory.
            let limit = match operation.file {
                Some(_) => operation.body_limit.min(form::MOST_TEXT),
                None => operation.body_limit,
            };
            let bytes = exchange.read_body(limit).await?;
            parameters::body(exchange.request(), bytes).await?
        };
        let (value, page) = parameters::check(
            operation,
            Sent {
                path,
                query,
                body,
                headers: exchange.headers(),
            },
        )?;
        if let Some(page) = page {
            exchange.set_page(page);
        }
        Ok(value)
    }

    /// Returns the response and checks its status against the documented ones.
    pub fn answer<S: Success, const STATUS: u16>(
        &self,
        exchange: Exchange<'_>,
        outcome: Result<S>,
    ) -> Reply<STATUS> {
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK);
        let outcome = outcome.and_then(|success| success.render(status, &exchange));
        Reply::new(self.finish(exchange, outcome))
    }

    fn finish(&self, exchange: Exchange<'_>, outcome: Result<Response>) -> Response {
        let operation = exchange.operation();
        let response = outcome.unwrap_or_else(|error| {
            if let Error::Internal(cause) = &error {
                tracing::error!(operation = operation.id, cause = %error_chain(cause.as_ref()), "request failed");
            }
            failure::answer_in(operation.errors, &error)
        });
        let headers = exchange.headers();
        let response = match exchange.memorable {
            Some(memorable) => self.inner.answers.keep(memorable, response),
            None => response,
        };
        let response = revalidation::revalidated(response, headers);
        let documented = operation.statuses.contains(&response.status().as_u16());
        if !documented {
            metrics::counter!("holdfast_undocumented_status_total", "operation" => operation.id).increment(1);
            tracing::error!(operation = operation.id, status = %response.status(), "response status is not documented");
        }
        debug_assert!(
            documented,
            "{} answered {}, which is not documented",
            operation.id,
            response.status()
        );
        response
    }
}

/// Returns the value of the path parameter that identifies the project, group or user.
fn container_key<'a>(operation: &Operation, path: &'a [(&'static str, String)]) -> Option<&'a str> {
    let named = |wanted: &str| {
        path.iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value.as_str())
    };
    match operation.access.on {
        On::Instance => None,
        On::Project | On::Group => named("id"),
        On::User => named("user_id").or_else(|| named("id")),
        On::Scim => named("group_path"),
    }
}
