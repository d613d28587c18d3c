//! Webhook client. It sends one bounded POST to an address that a user chose and that may be hostile.
//!
//! Every address is checked when the connection is opened: literal addresses, resolved names and redirects
//! (ADR 15). The total time is limited to ten seconds, and only a few kilobytes of the response
//! are read.

mod address;
mod resolver;
mod target;

use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;
use url::Url;

use crate::integrations::tls;
use crate::integrations::work_shares::{ShareExceeded, WorkLimits, WorkShare, WorkShares};
use crate::secrets::Secret;

pub(super) use resolver::{Resolver, UnreachableHost};
pub(super) use target::check;
pub use target::{MASKED_PASSWORD, RejectedUrl, WebhookTarget};

/// Time limit of a request including its redirects.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of redirects.
const REDIRECTS: usize = 3;
/// Bytes of a response that are read and stored.
const EXCERPT: usize = 8 * 1024;
/// Time limit for the body of a response, from its start.
const BODY_TIME: Duration = Duration::from_secs(2);
/// Maximum number of concurrent requests that API callers wait for.
const WAITED_FOR: usize = 16;
/// Maximum number of jobs of a project that send requests at the same time.
const MAX_DELIVERIES_PER_PROJECT: usize = 8;
/// Maximum number of jobs of a user that send requests at the same time. The server runs more.
const MAX_DELIVERIES_PER_USER: usize = 16;
const DELIVERY_LIMITS: WorkLimits = WorkLimits {
    per_project: MAX_DELIVERIES_PER_PROJECT,
    per_user: MAX_DELIVERIES_PER_USER,
    project_delay: Duration::from_secs(2),
    user_delay: Duration::from_secs(5),
};
/// Number of response headers that are stored.
const MAX_HEADERS: usize = 50;
const MAX_HEADER_LENGTH: usize = 1024;
/// Headers that the client sets, and headers that control the connection.
const CLIENT_HEADERS: [&str; 13] = [
    "Connection",
    "Content-Length",
    "Content-Type",
    "Expect",
    "Host",
    "Keep-Alive",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "User-Agent",
];

/// A request.
#[derive(Debug)]
pub struct WebhookRequest {
    /// The address, as displayed by [`WebhookTarget::parse`].
    pub url: String,
    /// The password that the displayed address hides.
    pub password: Option<Secret<String>>,
    /// Headers that describe the payload.
    pub headers: Vec<(&'static str, String)>,
    /// Headers that authenticate the sender. They are sent until a redirect leads to another origin, and not after it.
    pub secrets: Vec<(&'static str, Secret<String>)>,
    /// Headers that the owner of the webhook chose, sent to the same origin as `secrets`. They contain neither the
    /// headers above nor a header of the client.
    pub custom_headers: Vec<(String, Secret<String>)>,
    /// The JSON body.
    pub body: Bytes,
    /// Whether the certificate must be valid.
    pub verify: bool,
    /// Whether loopback and private addresses are allowed.
    pub local: bool,
}

/// The response of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookResponse {
    /// The status.
    pub status: u16,
    /// The headers, truncated.
    pub headers: Vec<(String, String)>,
    /// The start of the body.
    pub body: String,
}

/// The result of a request.
#[derive(Debug)]
pub struct WebhookResult {
    /// The response, or the reason for its absence, worded for the owner of the webhook.
    pub answer: Result<WebhookResponse, &'static str>,
    /// Duration of the request.
    pub duration: Duration,
}

/// Sends webhooks. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct WebhookClient {
    /// Clients for public addresses only.
    public: Arc<Pair>,
    /// Clients that also reach local addresses.
    everywhere: Arc<Pair>,
    local: bool,
    waited_for: Arc<Semaphore>,
    shares: WorkShares,
}

/// Two clients that reach the same addresses, with and without verification of certificates. They are created on first
/// use: a verifying client reads all certificates of the system, which takes longer than the rest of a server start.
#[derive(Debug)]
struct Pair {
    local: bool,
    verifying: OnceLock<reqwest::Client>,
    trusting: OnceLock<reqwest::Client>,
}

impl WebhookClient {
    /// Creates a client. If `local` is true, every request may reach loopback and private addresses.
    /// Otherwise only requests with their own flag may.
    #[must_use]
    pub fn new(local: bool) -> Self {
        tls::install_provider();
        Self {
            public: Arc::new(Pair::new(false)),
            everywhere: Arc::new(Pair::new(true)),
            local,
            waited_for: Arc::new(Semaphore::new(WAITED_FOR)),
            shares: WorkShares::new(DELIVERY_LIMITS),
        }
    }

    /// Returns whether every request may reach loopback and private addresses.
    #[must_use]
    pub fn is_local_allowed(&self) -> bool {
        self.local
    }

    /// Takes a share of the jobs that send requests in this process, until the share is dropped.
    ///
    /// # Errors
    /// Returns `ShareExceeded` if too many jobs of the project or the user send requests.
    pub fn take_share(&self, project_id: i64, user_id: Option<i64>) -> Result<WorkShare, ShareExceeded> {
        self.shares.take(project_id, user_id)
    }

    /// Sends a request and reads the start of the response, in ten seconds at most.
    pub async fn send(&self, request: WebhookRequest) -> WebhookResult {
        let begun = Instant::now();
        let answer = match tokio::time::timeout(TIME_LIMIT, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err("the receiver did not respond in time"),
        };
        WebhookResult {
            answer,
            duration: begun.elapsed(),
        }
    }

    /// As [`Self::send`], for an API caller who waits. Returns `None` if too many callers wait already.
    pub async fn send_now(&self, request: WebhookRequest) -> Option<WebhookResult> {
        let _permit = self.waited_for.try_acquire().ok()?;
        Some(self.send(request).await)
    }

    async fn exchange(&self, request: WebhookRequest) -> Result<WebhookResponse, &'static str> {
        let first =
            target::destination(&request.url, request.password.as_ref()).map_err(RejectedUrl::reason)?;
        let origin = first.url.origin();
        let plain = headers(
            request
                .headers
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        );
        let secrets = request
            .secrets
            .iter()
            .map(|(name, value)| (*name, value.expose().as_str()));
        let custom_headers = request
            .custom_headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose().as_str()));
        let secrets = headers(secrets.chain(custom_headers));
        let local = self.local || request.local;
        let pair = if local { &self.everywhere } else { &self.public };
        let client = pair.client(request.verify)?;
        let body = request.body;
        let mut url = first.url;
        let mut is_trusted = true;
        for _ in 0..=REDIRECTS {
            check(&url, local).map_err(RejectedUrl::reason)?;
            // Another origin could redirect back to a URL of its choice, so the trust does not return.
            is_trusted &= url.origin() == origin;
            let mut post = client
                .post(url.clone())
                .headers(plain.clone())
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
            if is_trusted {
                post = post.headers(secrets.clone());
                if let Some((user, password)) = &first.credentials {
                    post = post.basic_auth(user, password.as_ref());
                }
            }
            let response = post.send().await.map_err(|error| reason(&error))?;
            match next(&url, &response) {
                Some(further) => url = further,
                None => return Ok(read(response).await),
            }
        }
        Err("the receiver redirected too many times")
    }
}

impl Pair {
    fn new(local: bool) -> Self {
        Self {
            local,
            verifying: OnceLock::new(),
            trusting: OnceLock::new(),
        }
    }

    fn client(&self, verify: bool) -> Result<&reqwest::Client, &'static str> {
        let client = if verify { &self.verifying } else { &self.trusting };
        if let Some(client) = client.get() {
            return Ok(client);
        }
        let built = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .http1_only()
            .pool_max_idle_per_host(0)
            .connect_timeout(TIME_LIMIT)
            .timeout(TIME_LIMIT)
            .dns_resolver(Resolver::system(self.local))
            .tls_danger_accept_invalid_certs(!verify)
            .tls_danger_accept_invalid_hostnames(!verify)
            .user_agent(concat!("Holdfast/", env!("CARGO_PKG_VERSION")))
            .build();
        match built {
            Ok(built) => Ok(client.get_or_init(|| built)),
            Err(error) => {
                tracing::error!(%error, "failed to initialize TLS for webhooks");
                Err("the server cannot use TLS")
            }
        }
    }
}

/// Returns the target of a redirect that asks for the same request again. Status 301 and 302 count as well,
/// because a webhook that becomes a GET would lose its body.
fn next(from: &Url, response: &reqwest::Response) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let mut url = from.join(location).ok()?;
    // Credentials in a redirect are removed. An address that cannot have credentials is unchanged here and
    // refused later.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Some(url)
}

/// Reads the status, the headers and the start of the body. If the body breaks off or stalls, the part
/// received so far is kept, because the receiver has responded.
async fn read(mut response: reqwest::Response) -> WebhookResponse {
    let status = response.status().as_u16();
    let cut = |text: &str| text.chars().take(MAX_HEADER_LENGTH).collect();
    let headers = response
        .headers()
        .iter()
        .take(MAX_HEADERS)
        .map(|(name, value)| (name.to_string(), cut(&String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    let mut body = Vec::new();
    let reading = async {
        while body.len() < EXCERPT
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // The part received until then is sufficient.
    let _ = tokio::time::timeout(BODY_TIME, reading).await;
    body.truncate(EXCERPT);
    WebhookResponse {
        status,
        headers,
        // NUL cannot be stored as text.
        body: String::from_utf8_lossy(&body).replace('\0', "\u{fffd}"),
    }
}

/// Builds the header map and omits values that are not valid in a header. Stored values were validated
/// before.
fn headers<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> HeaderMap {
    let parsed = pairs.filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    });
    parsed.collect()
}

/// Returns whether the client sets a header itself, or a header controls the connection.
pub(crate) fn is_client_header(name: &str) -> bool {
    CLIENT_HEADERS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns why there was no response, worded so that the owner can fix it without learning details of this
/// network.
fn reason(error: &reqwest::Error) -> &'static str {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.is::<UnreachableHost>() {
            return "the host does not resolve to an allowed address";
        }
        if is_of_tls(inner) {
            return "the certificate is not valid, or TLS failed";
        }
        cause = inner.source();
    }
    if error.is_timeout() {
        "the receiver did not respond in time"
    } else if error.is_connect() {
        "the connection failed"
    } else {
        "the receiver closed the connection"
    }
}

/// Returns whether an error is a TLS error, also if it is wrapped in I/O errors.
pub(super) fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || wrapped.is_some_and(|inner| is_of_tls(inner))
}
