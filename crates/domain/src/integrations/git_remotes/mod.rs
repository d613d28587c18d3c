//! Client for pushes to and fetches from remote repositories over smart HTTP. Users choose their URLs, and they may be
//! hostile.
//!
//! Addresses are checked as for webhooks: literal addresses in the URL, and resolved names when the connection is
//! opened, which uses the addresses of that lookup. Redirects are not followed. Programs of Git need no network: they
//! only write the pack that the client sends (ADR 67), and read the pack that it receives (ADR 72).

mod fetch;
mod progress;
mod shares;
#[cfg(test)]
mod tests;
mod url;

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::url::Url;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use git::RefCommand;
use parsers::pkt_line::{FLUSH, packet};
use parsers::receive_pack::{
    Advertisement, MAX_ADVERTISEMENT_BYTES, MAX_REPORT_BYTES, PushReport, read_advertisement, read_report,
};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Body, RequestBuilder, Response};

use crate::integrations::tls;
use crate::integrations::webhooks::{self, Resolver, UnreachableHost};
use crate::integrations::work_shares::{ShareExceeded, WorkShare};
use crate::secrets::Secret;

pub use self::fetch::{FetchRequest, PackFailure, RemotePack};
pub use self::shares::{MirrorUpdate, UpdateDirection};
pub use self::url::{RejectedRemote, RemoteUrl, UrlChange};
use progress::{UploadProgress, WatchedStream};
use shares::UpdateShares;

const SERVICE: &str = "git-receive-pack";
const ADVERTISEMENT_TYPE: &str = "application/x-git-receive-pack-advertisement";
const REQUEST_TYPE: &str = "application/x-git-receive-pack-request";
const RESULT_TYPE: &str = "application/x-git-receive-pack-result";
/// ID of a reference that does not exist.
const NO_OBJECT: &str = "0000000000000000000000000000000000000000";

/// Time limits of requests.
#[derive(Debug, Clone, Copy)]
struct RemoteLimits {
    /// Until the connection is open.
    connect: Duration,
    /// Until the response with the list of references starts.
    list_start: Duration,
    /// Until the list of references is complete.
    list: Duration,
    /// A pause of an upload, or of a response.
    pause: Duration,
    /// From the end of an upload until the response starts.
    response: Duration,
    /// From the start of the report on a push until it is complete.
    report: Duration,
}

/// Maximum time from the start of the report on a push to its end. A server can send the start before it checks the
/// objects, which takes minutes for a large push. It gets as much time as a server that sends nothing until then.
const MAX_REPORT_TIME: Duration = Duration::from_secs(10 * 60);

const LIMITS: RemoteLimits = RemoteLimits {
    connect: Duration::from_secs(10),
    list_start: Duration::from_secs(15),
    list: Duration::from_secs(120),
    pause: Duration::from_secs(5 * 60),
    response: Duration::from_secs(10 * 60),
    report: MAX_REPORT_TIME,
};

/// A remote repository.
#[derive(Debug, Clone)]
pub struct RemoteRepository {
    /// The URL, as displayed by [`RemoteUrl::parse`].
    pub url: String,
    /// The credentials that the displayed URL hides.
    pub credentials: Option<Secret<String>>,
    /// Whether loopback and private addresses are allowed.
    pub local: bool,
}

/// The reason why an exchange with a remote repository failed, worded for the owner of the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFailure {
    /// The reason, without credentials.
    pub text: String,
    /// Whether a later attempt can succeed.
    pub is_temporary: bool,
}

impl RemoteFailure {
    fn permanent(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_temporary: false,
        }
    }

    fn temporary(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_temporary: true,
        }
    }
}

/// Pushes to and fetches from remote repositories. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct GitRemoteClient {
    shared: Arc<Clients>,
    shares: UpdateShares,
}

/// Clients for public addresses, and for all allowed addresses. They are created on first use: a client reads all
/// certificates of the system.
#[derive(Debug)]
struct Clients {
    limits: RemoteLimits,
    public: OnceLock<reqwest::Client>,
    everywhere: OnceLock<reqwest::Client>,
}

impl Default for GitRemoteClient {
    fn default() -> Self {
        Self::with_limits(LIMITS)
    }
}

impl GitRemoteClient {
    fn with_limits(limits: RemoteLimits) -> Self {
        tls::install_provider();
        Self {
            shared: Arc::new(Clients {
                limits,
                public: OnceLock::new(),
                everywhere: OnceLock::new(),
            }),
            shares: UpdateShares::default(),
        }
    }

    /// Takes a share of the updates that run in this process, until the share is dropped.
    ///
    /// # Errors
    /// Returns `ShareExceeded` if too many updates of the project or the user run.
    pub fn take_share(&self, update: MirrorUpdate) -> Result<WorkShare, ShareExceeded> {
        self.shares.take(update)
    }

    /// Returns the references of a remote repository.
    ///
    /// # Errors
    /// Returns the reason of a failure.
    pub async fn list(&self, remote: &RemoteRepository) -> Result<Advertisement, RemoteFailure> {
        let limits = self.shared.limits;
        let exchange = async {
            let mut url = self.url(remote, "info/refs")?;
            url.set_query(Some("service=git-receive-pack"));
            let request = self.client(remote.local)?.get(url).header(ACCEPT, "*/*");
            let sending = authenticated(request, remote).send();
            let response = match tokio::time::timeout(limits.list_start, sending).await {
                Ok(response) => response.map_err(|error| failure(&error))?,
                Err(_) => return Err(RemoteFailure::temporary(NO_RESPONSE)),
            };
            check_response(&response, ADVERTISEMENT_TYPE)?;
            let body = read_body(response, MAX_ADVERTISEMENT_BYTES, limits.pause).await?;
            read_advertisement(&body).map_err(|error| RemoteFailure::permanent(error.to_string()))
        };
        let listed = match tokio::time::timeout(limits.list, exchange).await {
            Ok(listed) => listed,
            Err(_) => Err(RemoteFailure::temporary(NO_RESPONSE)),
        };
        listed.map_err(|failure| without_credentials(failure, remote))
    }

    /// Updates references of a remote repository. `pack` contains the objects that it lacks; it is not sent if all
    /// references are deleted.
    ///
    /// # Errors
    /// Returns the reason of a failure. References that the remote repository refused are no failure.
    pub async fn push<S>(
        &self,
        remote: &RemoteRepository,
        advertisement: &Advertisement,
        commands: &[RefCommand],
        pack: Option<S>,
    ) -> Result<PushReport, RemoteFailure>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let limits = self.shared.limits;
        let sideband = advertisement.has("side-band-64k");
        let head = request_head(advertisement, commands);
        let progress = UploadProgress::new();
        let body = match pack {
            None => {
                progress.end();
                Body::from(head)
            }
            Some(pack) => Body::wrap_stream(WatchedStream {
                inner: Box::pin(stream::once(std::future::ready(Ok(head))).chain(pack)),
                progress: progress.clone(),
            }),
        };
        let exchange = async {
            let request = self
                .client(remote.local)?
                .post(self.url(remote, SERVICE)?)
                .header(CONTENT_TYPE, REQUEST_TYPE)
                .header(ACCEPT, RESULT_TYPE)
                .body(body);
            let sending = authenticated(request, remote).send();
            let response = until_stalled(sending, &progress, limits).await?;
            let response = response.map_err(|error| match progress.is_broken() {
                true => RemoteFailure::temporary("the server failed to create the pack"),
                false => failure(&error),
            })?;
            check_response(&response, RESULT_TYPE)?;
            let reading = read_body(response, MAX_REPORT_BYTES, limits.pause);
            let body = match tokio::time::timeout(limits.report, reading).await {
                Ok(body) => body?,
                Err(_) => return Err(RemoteFailure::temporary(NO_RESPONSE)),
            };
            read_report(&body, sideband).map_err(|error| RemoteFailure::permanent(error.to_string()))
        };
        let report = exchange
            .await
            .map_err(|failure| without_credentials(failure, remote))?;
        let Some(credentials) = &remote.credentials else {
            return Ok(report);
        };
        let clean = |(name, reason): (String, String)| (name, url::without_credentials(&reason, credentials));
        Ok(PushReport {
            rejected: report.rejected.into_iter().map(clean).collect(),
            ..report
        })
    }

    /// Returns the URL of a service, whose address is allowed if it is not a name.
    fn url(&self, remote: &RemoteRepository, service: &str) -> Result<Url, RemoteFailure> {
        const NOT_ALLOWED: &str = "the address is not allowed";
        let url = url::service(&remote.url, service).map_err(|_| RemoteFailure::permanent(NOT_ALLOWED))?;
        webhooks::check(&url, remote.local)
            .map_err(|rejected| RemoteFailure::permanent(rejected.reason()))?;
        Ok(url)
    }

    fn client(&self, local: bool) -> Result<&reqwest::Client, RemoteFailure> {
        let client = if local {
            &self.shared.everywhere
        } else {
            &self.shared.public
        };
        if let Some(client) = client.get() {
            return Ok(client);
        }
        let built = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .http1_only()
            .pool_max_idle_per_host(0)
            .connect_timeout(self.shared.limits.connect)
            .dns_resolver(Resolver::system(local))
            // Some servers accept pushes only from clients whose name starts like that.
            .user_agent(concat!("git/2 Holdfast/", env!("CARGO_PKG_VERSION")))
            .build();
        match built {
            Ok(built) => Ok(client.get_or_init(|| built)),
            Err(error) => {
                tracing::error!(%error, "failed to initialize TLS for mirrors");
                Err(RemoteFailure::temporary("the server cannot use TLS"))
            }
        }
    }
}

const NO_RESPONSE: &str = "the remote repository did not respond in time";

fn authenticated(request: RequestBuilder, remote: &RemoteRepository) -> RequestBuilder {
    match &remote.credentials {
        None => request,
        Some(credentials) => {
            let credentials = url::decoded(credentials);
            request.basic_auth(credentials.user, credentials.password.map(Secret::into_exposed))
        }
    }
}

/// Returns the commands of a push with their capabilities, up to the pack.
fn request_head(advertisement: &Advertisement, commands: &[RefCommand]) -> Bytes {
    let mut capabilities = " report-status".to_owned();
    for capability in ["side-band-64k", "quiet", "object-format=sha1"] {
        if advertisement.has(capability) {
            capabilities.push(' ');
            capabilities.push_str(capability);
        }
    }
    push_commands(commands, &capabilities).into()
}

/// Returns the packets of the commands of a push. The capabilities are part of the first one.
pub(crate) fn push_commands(commands: &[RefCommand], capabilities: &str) -> String {
    let id = |id: Option<git::Oid>| id.map_or_else(|| NO_OBJECT.to_owned(), |id| id.to_string());
    let mut list = String::new();
    for (number, command) in commands.iter().enumerate() {
        let (old, new, reference) = (id(command.old), id(command.new), &command.reference);
        list.push_str(&packet(&match number {
            0 => format!("{old} {new} {reference}\0{capabilities}\n"),
            _ => format!("{old} {new} {reference}\n"),
        }));
    }
    list + FLUSH
}

/// Waits for the response to an upload.
async fn until_stalled<T>(
    sending: impl Future<Output = T>,
    progress: &UploadProgress,
    limits: RemoteLimits,
) -> Result<T, RemoteFailure> {
    tokio::select! {
        response = sending => Ok(response),
        () = progress.stalled(limits.pause, limits.response) => Err(RemoteFailure::temporary(NO_RESPONSE)),
    }
}

/// Checks the status and the type of a response.
fn check_response(response: &Response, media_type: &str) -> Result<(), RemoteFailure> {
    let status = response.status().as_u16();
    match status {
        200 => {}
        300..=399 => {
            return Err(RemoteFailure::permanent(
                "the remote repository redirects to another URL, which is not followed",
            ));
        }
        401 => {
            return Err(RemoteFailure::permanent(
                "the remote repository requires other credentials",
            ));
        }
        403 => {
            return Err(RemoteFailure::permanent(
                "the remote repository does not allow the push",
            ));
        }
        404 => return Err(RemoteFailure::permanent("the remote repository was not found")),
        408 | 425 | 429 | 500.. => {
            return Err(RemoteFailure::temporary(format!(
                "the remote repository responded with the status {status}"
            )));
        }
        _ => {
            return Err(RemoteFailure::permanent(format!(
                "the remote repository responded with the status {status}"
            )));
        }
    }
    let found = response.headers().get(CONTENT_TYPE);
    let found = found.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let found = found.split(';').next().unwrap_or_default().trim();
    match found.eq_ignore_ascii_case(media_type) {
        true => Ok(()),
        false => Err(RemoteFailure::permanent(
            "the URL is not that of a Git repository",
        )),
    }
}

/// Reads a body, which pauses for a limited time.
async fn read_body(mut response: Response, limit: usize, pause: Duration) -> Result<Vec<u8>, RemoteFailure> {
    let mut body = Vec::new();
    loop {
        let chunk = match tokio::time::timeout(pause, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| failure(&error))?,
            Err(_) => return Err(RemoteFailure::temporary(NO_RESPONSE)),
        };
        let Some(chunk) = chunk else { return Ok(body) };
        if body.len() + chunk.len() > limit {
            return Err(RemoteFailure::permanent(
                "the response of the remote repository is too large",
            ));
        }
        body.extend_from_slice(&chunk);
    }
}

/// Returns why there was no response, worded so that the owner can fix it without learning details of this network.
fn failure(error: &reqwest::Error) -> RemoteFailure {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.is::<UnreachableHost>() {
            return RemoteFailure::temporary("the host does not resolve to an allowed address");
        }
        if webhooks::is_of_tls(inner) {
            return RemoteFailure::permanent("the certificate is not valid, or TLS failed");
        }
        cause = inner.source();
    }
    RemoteFailure::temporary(if error.is_timeout() {
        NO_RESPONSE
    } else if error.is_connect() {
        "the connection failed"
    } else {
        "the remote repository closed the connection"
    })
}

fn without_credentials(failure: RemoteFailure, remote: &RemoteRepository) -> RemoteFailure {
    match &remote.credentials {
        None => failure,
        Some(credentials) => RemoteFailure {
            text: url::without_credentials(&failure.text, credentials),
            ..failure
        },
    }
}
