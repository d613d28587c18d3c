//! The steps around every handler: authentication, validation, authorization and the response.
//!
//! A caller whose body took long is identified and authorized again before the handler runs.
//!
//! Errors are checked in the order 401, 400, 404, 403 (docs/API-DESIGN.md). Some operations check 404 and 403
//! before 400. These are operations with `first: true`, forms that may contain a file, bodies that are stored as a
//! file, and bodies over 1 MiB. The path is validated before all.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::input::{FromInput, Input};
use contract::operation::{ErrorFormat, Operation, ResourceKind};
use domain::identity::access::Authorize;
use domain::identity::authentication;
use domain::instance::settings;
use domain::kernel::Backend;
use domain::kernel::budgets::RequestMemory;
use domain::kernel::caller::Caller;
use domain::kernel::error::{Error, Result, ScimErrorType};
use domain::kernel::settings::{ATTACHMENT_SIZE, PACKAGE_FILE_SIZE};
use poem::Response;
use poem::http::StatusCode;
use poem::http::header::{CONTENT_TYPE, RANGE};
use serde_json::{Map, Value};
use storage::error_chain;

use crate::api::body;
use crate::api::client_address::{address_key, client_ip};
use crate::api::credentials::{self, AcceptedCredentials};
use crate::api::error_response;
use crate::api::exchange::Exchange;
use crate::api::form;
use crate::api::paging::BodyFilters;
use crate::api::parameters::{self, RawInput};
use crate::api::request_rate;
use crate::api::response::Success;
use crate::api::response_cache::{CacheKey, Found, ResponseCache};
use crate::api::response_memory;
use crate::api::revalidation;
use crate::api::rule::rule;
use crate::api::spool;
use crate::observability::table::UNDOCUMENTED_STATUS;

/// Age from which a caller is identified again, after a small body was read. Small bodies usually arrive with the head.
const MAX_IDENTITY_AGE: Duration = Duration::from_millis(100);
/// Maximum size of a form in addition to its file, in bytes.
const MAX_FORM_OVERHEAD: u64 = 64 << 10;
/// Maximum size of a JSON document in addition to the file in it, in bytes.
const MAX_DOCUMENT_OVERHEAD: u64 = 8 << 20;

/// A future response.
pub type ResponseFuture<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// The edge in front of a handler.
pub struct Edge<H> {
    handler: Arc<H>,
    steps: Arc<Steps>,
}

impl<H> Clone for Edge<H> {
    fn clone(&self) -> Self {
        Self {
            handler: Arc::clone(&self.handler),
            steps: Arc::clone(&self.steps),
        }
    }
}

impl<H> Edge<H> {
    /// Returns an edge in front of `handler`, which caches responses in `cache`.
    pub fn new(handler: H, backend: Backend, cache: ResponseCache) -> Self {
        Self {
            handler: Arc::new(handler),
            steps: Arc::new(Steps { backend, cache }),
        }
    }

    /// Returns the future that processes a request: authorizes it, calls the handler and creates the response.
    ///
    /// `call` starts a method of the handler. `wrap` converts its result for the response. The compiler checks this
    /// function once, and creates it again for each operation.
    pub fn run<'a, A, R, C, F, T, W, S>(
        &'a self,
        mut exchange: Exchange<'a>,
        call: C,
        wrap: W,
    ) -> ResponseFuture<'a>
    where
        A: Authorize + 'a,
        R: FromInput + Send,
        C: FnOnce(&'a H, A, R, &mut Exchange<'a>) -> Result<F> + Send + 'a,
        F: Future<Output = Result<T>> + Send,
        W: FnOnce(T) -> S + Send + 'a,
        S: Success,
        H: Send + Sync,
    {
        Box::pin(async move {
            let authorized = self.authorize(&mut exchange).await;
            let result = match authorized.and_then(Authorized::request) {
                Ok((access, request)) => Ok(match call(&self.handler, access, request, &mut exchange) {
                    Ok(running) => running.await.map(wrap),
                    Err(error) => Err(error),
                }),
                Err(interruption) => Err(interruption),
            };
            self.respond(exchange, result)
        })
    }

    /// Authorizes a request: identifies the caller, validates the input, finds the resource of the path, and
    /// checks access. A cached response to the same request of the same caller interrupts it.
    ///
    /// Boxed, because the futures of all operations contain this one.
    ///
    /// # Errors
    /// The cached response, or the error of the first failed check.
    fn authorize<'a, A: Authorize + 'a>(
        &'a self,
        exchange: &'a mut Exchange<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<Authorized<A>, Interruption>> + Send + 'a>> {
        Box::pin(self.steps.authorize(exchange))
    }

    /// Returns the response and checks its status against the documented ones.
    fn respond<S: Success>(
        &self,
        exchange: Exchange<'_>,
        result: Result<Result<S>, Interruption>,
    ) -> Response {
        let status = StatusCode::from_u16(exchange.operation().success).unwrap_or(StatusCode::OK);
        let result = result.map(|result| result.and_then(|success| success.render(status, &exchange)));
        self.steps.finish(exchange, result)
    }
}

/// An authorized request: the access values, and the validated input, which has no type yet.
struct Authorized<A> {
    access: A,
    input: Input,
}

impl<A> Authorized<A> {
    /// Returns the access values, and the input with the type of the operation.
    ///
    /// # Errors
    /// [`Error::Internal`]: the input was checked against the operation table, so a failure is a bug.
    fn request<R: FromInput>(mut self) -> Result<(A, R), Interruption> {
        match R::from_input(&mut self.input) {
            Ok(request) => Ok((self.access, request)),
            Err(error) => Err(Interruption::Failed(Error::internal(error))),
        }
    }
}

/// Reason why the handler of an operation is not called.
enum Interruption {
    /// The response is cached.
    Cached(Box<Response>),
    /// A check failed.
    Failed(Error),
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Maximum size of a body with a file.
struct FileLimit {
    bytes: u64,
    /// The setting that the maximum depends on.
    setting: Option<&'static str>,
}

impl FileLimit {
    /// Returns the smaller one of the limits of a setting and the operation.
    fn of_setting(operation: &Operation, setting: &'static str, bytes: u64) -> Self {
        Self {
            bytes: operation.body_limit.min(bytes),
            setting: (bytes < operation.body_limit).then_some(setting),
        }
    }

    /// Adds the name of the setting to the error of a body that is too large.
    fn name_setting(&self, error: Error) -> Error {
        match (error, self.setting) {
            (Error::TooLarge, Some(setting)) => Error::TooLarge.because_of(setting),
            (error, _) => error,
        }
    }
}

/// The steps that do not depend on the handler or on the types of an operation.
struct Steps {
    backend: Backend,
    cache: ResponseCache,
}

impl Steps {
    /// Returns the cached response to the same request of the same caller, if the database is unchanged, or the one
    /// that another request computes. Otherwise stores the missing response in the exchange, so that the new response
    /// is cached.
    ///
    /// # Errors
    /// If the caller cannot be identified or has sent too many requests, or if too little memory is left for the
    /// response.
    async fn cached_response(&self, exchange: &mut Exchange<'_>) -> Result<Option<Response>> {
        let operation = exchange.operation();
        if !operation.is_read() {
            return Ok(None);
        }
        // Read before any lookup, so that a concurrent write invalidates the response.
        let Some(version) = self.backend.database.read_version().await else {
            return Ok(None);
        };
        let caller = self.identify(exchange).await?;
        // Other responses do not depend only on the URL. A gate may be open for a percentage of the time, so it is
        // evaluated for each request.
        let is_cacheable = self.cache.is_enabled()
            && operation.cacheable
            && operation.flag.is_none()
            && exchange.has_no_body()
            && !exchange.headers().contains_key(RANGE);
        let key = is_cacheable.then(|| CacheKey::new(operation, exchange.request(), &caller, version));
        let client = request_rate::client(exchange.request(), &caller);
        let user_id = caller.as_user().map(|user| user.id);
        exchange.identified = Some(caller);
        let Some(key) = key else {
            return Ok(None);
        };
        match self.cache.find(key, client).await {
            Found::Response(response, body) => {
                let response = revalidation::revalidated(*response, exchange.headers());
                if exchange.is_head() {
                    return Ok(Some(response));
                }
                response_memory::hold_cached(response, body, || self.memory(exchange, user_id)).map(Some)
            }
            Found::Missing(missing) => {
                exchange.missing_response = Some(missing);
                Ok(None)
            }
        }
    }

    /// Identifies the caller and counts the request for the caller's limit.
    async fn identify(&self, exchange: &Exchange<'_>) -> Result<Caller> {
        let identified = self.find_caller(exchange).await;
        request_rate::count(exchange.request(), identified.as_ref().ok())?;
        identified
    }

    async fn find_caller(&self, exchange: &Exchange<'_>) -> Result<Caller> {
        if exchange.operation().access.on == ResourceKind::Scim {
            let token = credentials::bearer(exchange.request()).ok_or(Error::Unauthorized)?;
            let caller = authentication::caller_of_scim_token(&self.backend, &token).await?;
            return Ok(caller.at_ip_address(client_ip(exchange.request())));
        }
        if exchange.operation().no_credentials {
            let caller = Caller::anonymous().at_ip_address(client_ip(exchange.request()));
            return Ok(caller.at_address(address_key(exchange.request())));
        }
        let query = parameters::query(exchange.raw_query());
        let accepted = AcceptedCredentials {
            job_token: exchange.operation().job_token,
            package_client: exchange.operation().package_client,
            bare_token: exchange.operation().cargo_client,
        };
        let credentials = credentials::read(exchange.request(), query.as_ref().ok(), accepted);
        let caller = authentication::identify(&self.backend, credentials).await?;
        let caller = caller.at_ip_address(client_ip(exchange.request()));
        Ok(caller.at_address(address_key(exchange.request())))
    }

    /// Returns the memory of a request of a user, or of an anonymous caller.
    fn memory(&self, exchange: &Exchange<'_>, user_id: Option<i64>) -> RequestMemory {
        response_memory::of_request(&self.backend, exchange.request(), user_id)
    }

    async fn authorize<A: Authorize>(
        &self,
        exchange: &mut Exchange<'_>,
    ) -> Result<Authorized<A>, Interruption> {
        if let Some(response) = self.cached_response(exchange).await? {
            return Err(Interruption::Cached(Box::new(response)));
        }
        let operation = exchange.operation();
        let caller = match exchange.identified.take() {
            Some(known) => known,
            None => self.identify(exchange).await?,
        };
        request_rate::use_database_share(exchange.request(), &caller);
        let user_id = caller.as_user().map(|user| user.id);
        exchange.set_caller(user_id);
        let memory = self.memory(exchange, user_id);
        let git_time = request_rate::git_time(exchange.request(), &self.backend, &caller);
        let caller = caller.with_memory(memory.clone()).with_git_time(git_time);
        exchange.set_memory(memory);
        if !caller.is_known() && !operation.access.anonymous {
            return Err(Error::Unauthorized.into());
        }
        let identified_at = Instant::now();
        let query = parameters::query(exchange.raw_query());
        let path = exchange.path()?;
        let key = container_key(operation, &path);
        // Check access first: the server must not store the bytes of a caller without permission.
        let is_whole_body = operation.file.as_ref().is_some_and(|file| file.whole_body);
        let is_form = operation.file.is_some() && form::is_form(exchange.headers());
        let carries_file = is_form || is_whole_body || operation.raw_body;
        let is_large = !carries_file && body::is_large(exchange).await?;
        if operation.access.first || carries_file || is_large {
            parameters::check_path(operation, &path)?;
            let client = caller.slot_holder();
            let access = self.check_access::<A>(operation, caller, key).await?;
            if carries_file && operation.package_client {
                let slot = self.backend.upload_slots.acquire_in_time(&client).await;
                let slot = slot.map_err(Error::internal)?.ok_or(Error::Overloaded)?;
                exchange.set_upload_slot(slot);
            }
            let input = self.read(exchange, &path, query?, is_large).await?;
            let access = match carries_file || is_large || identified_at.elapsed() > MAX_IDENTITY_AGE {
                true => {
                    let caller = self.identify_again(exchange).await?;
                    self.check_access::<A>(operation, caller, key).await?
                }
                false => access,
            };
            return Ok(Authorized { access, input });
        }
        let input = self.read(exchange, &path, query?, false).await?;
        let caller = match identified_at.elapsed() > MAX_IDENTITY_AGE {
            true => self.identify_again(exchange).await?,
            false => caller,
        };
        let access = self.check_access::<A>(operation, caller, key).await?;
        Ok(Authorized { access, input })
    }

    /// Looks up the resource of the operation, and checks the caller's access. Package clients send credentials only
    /// after they were asked for them, so a client without credentials is asked for every resource that is not public.
    async fn check_access<A: Authorize>(
        &self,
        operation: &'static Operation,
        caller: Caller,
        key: Option<&str>,
    ) -> Result<A> {
        let is_asked = operation.package_client && !caller.is_known();
        match A::authorize(&self.backend, caller, key, &rule(operation)).await {
            Err(error) if is_asked && (error.is_forbidden() || matches!(error, Error::NotFound(_))) => {
                Err(Error::Unauthorized)
            }
            outcome => outcome,
        }
    }

    /// Identifies the caller again after the body was received, which can take hours: a user who was blocked or a token
    /// that was revoked meanwhile changes nothing.
    async fn identify_again(&self, exchange: &Exchange<'_>) -> Result<Caller> {
        let caller = self.identify(exchange).await?;
        if !caller.is_known() && !exchange.operation().access.anonymous {
            return Err(Error::Unauthorized);
        }
        let caller = match exchange.memory() {
            Some(memory) => caller.with_memory(memory.clone()),
            None => caller,
        };
        let git_time = request_rate::git_time(exchange.request(), &self.backend, &caller);
        Ok(caller.with_git_time(git_time))
    }

    /// Returns the whole input, checked and coerced.
    async fn read(
        &self,
        exchange: &mut Exchange<'_>,
        path: &[(&'static str, String)],
        query: Map<String, Value>,
        is_large: bool,
    ) -> Result<Input> {
        let operation = exchange.operation();
        let body = if operation.raw_body {
            let file = self.backend.objects.spool().map_err(Error::internal)?;
            let limit = self.file_limit(operation);
            let read = spool::json(exchange, file, limit.bytes).await;
            read.map_err(|error| limit.name_setting(error))?;
            Map::new()
        } else if let Some(file) = &operation.file
            && file.whole_body
            && !form::is_form(exchange.headers())
        {
            let file = self.backend.objects.spool().map_err(Error::internal)?;
            let limit = self.file_limit(operation);
            let read = spool::bytes(exchange, file, limit.bytes).await;
            read.map_err(|error| limit.name_setting(error))?;
            Map::new()
        } else if let Some(file) = &operation.file
            && form::is_form(exchange.headers())
        {
            let backend = &self.backend;
            let limit = match file.attachment {
                true => {
                    let largest = settings::get(backend).await?.max_attachment_bytes();
                    let bytes = largest.saturating_add(MAX_FORM_OVERHEAD);
                    FileLimit::of_setting(operation, ATTACHMENT_SIZE, bytes)
                }
                false => self.file_limit(operation),
            };
            let read = form::read(exchange, limit.bytes, || {
                backend.objects.spool().map_err(Error::internal)
            });
            read.await.map_err(|error| limit.name_setting(error))?
        } else if is_large {
            body::read_large(exchange, &self.backend).await?
        } else {
            // The size limit of a file does not apply to text, which is read into memory.
            let limit = match operation.file {
                Some(_) => operation.body_limit.min(form::MAX_TEXT_BYTES),
                None => operation.body_limit,
            };
            let body = body::read_small(exchange, limit).await;
            body.map_err(|error| body_error(operation, error))?
        };
        exchange.set_body_filters(BodyFilters::new(operation, &body));
        let (input, page) = if is_large {
            // Checking all values takes about as long as parsing them.
            let (path, headers) = (path.to_vec(), exchange.headers().clone());
            let check = move || {
                let (path, headers) = (&*path, &headers);
                parameters::check(
                    operation,
                    RawInput {
                        path,
                        query,
                        body,
                        headers,
                    },
                )
            };
            tokio::task::spawn_blocking(check)
                .await
                .map_err(Error::internal)??
        } else {
            let headers = exchange.headers();
            parameters::check(
                operation,
                RawInput {
                    path,
                    query,
                    body,
                    headers,
                },
            )?
        };
        if let Some(page) = page {
            exchange.set_page(page);
        }
        Ok(input)
    }

    /// Returns the maximum size of a body with a file that is not an attachment.
    fn file_limit(&self, operation: &Operation) -> FileLimit {
        match operation.package_client {
            true => {
                let largest = self.backend.instance.max_package_file_bytes;
                let (encoded, overhead) = match operation.raw_body {
                    // A JSON document contains the file in Base64.
                    true => (largest.saturating_add(largest / 3), MAX_DOCUMENT_OVERHEAD),
                    false => (largest, MAX_FORM_OVERHEAD),
                };
                FileLimit::of_setting(operation, PACKAGE_FILE_SIZE, encoded.saturating_add(overhead))
            }
            false => FileLimit {
                bytes: operation.body_limit,
                setting: None,
            },
        }
    }

    /// Renders errors, caches and revalidates the response, and reports an undocumented status.
    fn finish(&self, exchange: Exchange<'_>, result: Result<Result<Response>, Interruption>) -> Response {
        let operation = exchange.operation();
        let result = match result {
            Ok(result) => result,
            Err(Interruption::Cached(response)) => return without_needless_type(*response),
            Err(Interruption::Failed(error)) => Err(error),
        };
        let result = match exchange.is_head() {
            true => result,
            false => result.and_then(|response| response_memory::hold(response, exchange.memory())),
        };
        let response = result.unwrap_or_else(|error| {
            if let Error::Internal(cause) = &error {
                tracing::error!(operation = operation.id, cause = %error_chain(cause.as_ref()), "request failed");
            }
            error_response::render_for(operation, exchange.headers(), &error)
        });
        let headers = exchange.headers();
        let response = match exchange.missing_response {
            Some(missing) => self.cache.insert(*missing, response),
            None => response,
        };
        let response = revalidation::revalidated(response, headers);
        let documented = operation.statuses.contains(&response.status().as_u16());
        if !documented {
            metrics::counter!(UNDOCUMENTED_STATUS.name, "operation" => operation.id).increment(1);
            tracing::error!(operation = operation.id, status = %response.status(), "response status is not documented");
        }
        debug_assert!(
            documented,
            "{} returned {}, which is not documented",
            operation.id,
            response.status()
        );
        without_needless_type(response)
    }
}

/// Returns the error of a body that is not a valid document. SCIM distinguishes it from invalid values.
fn body_error(operation: &Operation, error: Error) -> Error {
    match error {
        Error::InvalidParameters(faults) if operation.error_format != ErrorFormat::Plain => {
            Error::invalid_scim_request(ScimErrorType::Syntax, faults.texts.join(", "))
        }
        other => other,
    }
}

/// Removes the media type of a response without a body. Downloads may be empty and still have a type.
fn without_needless_type(mut response: Response) -> Response {
    if matches!(
        response.status(),
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    ) {
        response.headers_mut().remove(CONTENT_TYPE);
    }
    response
}

/// Returns the value of the path parameter that identifies the project, group or user.
fn container_key<'a>(operation: &Operation, path: &'a [(&'static str, String)]) -> Option<&'a str> {
    let named = |name_to_find: &str| {
        path.iter()
            .find(|(name, _)| *name == name_to_find)
            .map(|(_, value)| value.as_str())
    };
    match operation.access.on {
        ResourceKind::Instance => None,
        ResourceKind::Project | ResourceKind::Group => named("id"),
        ResourceKind::User => named("user_id").or_else(|| named("id")),
        ResourceKind::Scim => named("group_path"),
    }
}
