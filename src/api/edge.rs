//! What happens around every handler: who calls, what was sent, may they, and how the outcome is answered.
//!
//! The order of answers is 401, 400, 404, 403 (docs/API-DESIGN.md). Operations that say `first: true` in the contract
//! answer 404 and 403 before 400, and so do forms that may carry a file and bodies that become one; what stands in the path is checked before all.

use std::sync::Arc;

use poem::http::StatusCode;
use poem_openapi::Object;
use poem_openapi::types::ParseFromJSON;
use serde_json::{Map, Value};

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
use crate::api::types::PageRequest;
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::{Admission, Rule};
use crate::services::authentication::{self, Caller};
use crate::services::settings;

/// How many bytes a form may have beside its file.
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

/// The request of operations that take nothing.
#[derive(Debug, Object)]
pub struct NoRequest {}

impl<H> Edge<H> {
    /// An edge in front of `handler`.
    pub fn new(handler: H, backend: Backend) -> Self {
        Self {
            inner: Arc::new(Inner {
                handler,
                backend,
                answers: Answers::default(),
            }),
        }
    }

    /// The handler.
    #[must_use]
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// The answer that the same caller got to the same question, if nothing was written since; else whoever
    /// answers now is asked to remember it.
    pub async fn recall<S: Success, const STATUS: u16>(
        &self,
        exchange: &mut Exchange<'_>,
    ) -> Option<Reply<S, STATUS>> {
        // A gate may be open for a share of the time, and is asked each time.
        if exchange.operation().flag.is_some() {
            return None;
        }
        // Taken before anything is looked up, so that no write can come in between unnoticed.
        let version = self.inner.backend.database.version()?;
        let caller = self.identify(exchange).await.ok()?;
        let memorable = Memorable::of(exchange, &caller, version);
        exchange.identified = Some(caller);
        let memorable = memorable?;
        let known = self.inner.answers.known(&memorable);
        exchange.memorable = Some(memorable);
        known.map(|answer| Reply::new(revalidation::revalidated(answer, exchange.headers())))
    }

    async fn identify(&self, exchange: &Exchange<'_>) -> Result<Caller> {
        let query = parameters::query(exchange.raw_query());
        let jobs = exchange.operation().jobs;
        let credentials = credentials::read(exchange.request(), query.as_ref().ok(), jobs);
        authentication::identify(&self.inner.backend, credentials).await
    }

    /// Lets a request in: identifies the caller, checks what was sent, looks up what the path names, and decides.
    ///
    /// # Errors
    /// Whatever keeps the request out.
    pub async fn admit<A: Admission, R: ParseFromJSON>(&self, exchange: &mut Exchange<'_>) -> Result<(A, R)> {
        let operation = exchange.operation();
        let caller = match exchange.identified.take() {
            Some(known) => known,
            None => self.identify(exchange).await?,
        };
        exchange.set_caller(caller.as_user().map(|user| user.id));
        if !caller.is_signed_in() && !operation.access.anonymous {
            return Err(Error::Unauthorized);
        }
        let query = parameters::query(exchange.raw_query());
        let path = exchange.path()?;
        let key = container_key(operation, &path);
        // Nobody's bytes are kept who may not send them.
        let is_form = operation.file.is_some() && form::is_form(exchange.headers());
        let carries_file = is_form || operation.raw_body;
        if operation.access.first || carries_file {
            parameters::check_path(operation, &path)?;
            let access = self.look_up::<A>(operation, caller, key).await?;
            let request = self.parse::<R>(exchange, &path, query?).await?;
            return Ok((access, request));
        }
        let request = self.parse::<R>(exchange, &path, query?).await?;
        let access = self.look_up::<A>(operation, caller, key).await?;
        Ok((access, request))
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

    async fn parse<R: ParseFromJSON>(
        &self,
        exchange: &mut Exchange<'_>,
        path: &[(&'static str, String)],
        query: Map<String, Value>,
    ) -> Result<R> {
        let operation = exchange.operation();
        let body = if operation.raw_body {
            let file = self.inner.backend.objects.spool().map_err(Error::internal)?;
            spool::json(exchange, file).await?;
            Map::new()
        } else if operation.file.is_some() && form::is_form(exchange.headers()) {
            let backend = &self.inner.backend;
            let largest = settings::read(backend).await?.max_attachment_bytes();
            let limit = operation.body_limit.min(largest.saturating_add(AROUND_A_FILE));
            form::read(exchange, limit, || {
                backend.objects.spool().map_err(Error::internal)
            })
            .await?
        } else {
            // Room for a file is no room for text, which is held in memory.
            let limit = match operation.file {
                Some(_) => operation.body_limit.min(form::MOST_TEXT),
                None => operation.body_limit,
            };
            let bytes = exchange.read_body(limit).await?;
            parameters::body(exchange.request(), bytes).await?
        };
        let value = parameters::check(
            operation,
            Sent {
                path,
                query,
                body,
                headers: exchange.headers(),
            },
        )?;
        if let Some(page) = value
            .get("page")
            .filter(|_| operation.paging != super::operation::Paging::None)
        {
            let page = PageRequest::parse_from_json(Some(page.clone()));
            exchange.set_page(page.map_err(|error| Error::internal(error.into_message()))?);
        }
        // The value was made to fit, so a refusal here is a fault of ours.
        R::parse_from_json(Some(value)).map_err(|error| Error::internal(error.into_message()))
    }

    /// Makes the answer, and holds it to the statuses that the contract documents.
    pub fn answer<S: Success, const STATUS: u16>(
        &self,
        exchange: Exchange<'_>,
        outcome: Result<S>,
    ) -> Reply<S, STATUS> {
        let operation = exchange.operation();
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK);
        let outcome = outcome.and_then(|success| success.render(status, &exchange));
        let response = outcome.unwrap_or_else(|error| {
            if let Error::Internal(cause) = &error {
                tracing::error!(operation = operation.id, cause = %chain(cause.as_ref()), "request failed");
            }
            failure::answer(&error)
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
            tracing::error!(operation = operation.id, status = %response.status(), "status is not documented");
        }
        debug_assert!(
            documented,
            "{} answered {}, which is not documented",
            operation.id,
            response.status()
        );
        Reply::new(response)
    }
}

/// The value of the path parameter that names the project, group or user.
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
    }
}

/// An error and its sources, for the log.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
