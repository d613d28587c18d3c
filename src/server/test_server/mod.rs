//! A server for the tests of clients: it starts fast, its state is temporary and can be reset, and its clock and its responses
//! can be changed (ADR 56).

mod control;
mod directory;
mod error;
pub mod faults;
mod instance;
mod snapshot;
mod states;
mod switch;
mod template;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::secrets::{Secret, Token};
use poem::EndpointExt;
use serde::Serialize;
use storage::clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::listeners::listen;
use super::{demo, public_url};
use crate::config::ConfigOptions;
use crate::observability::recorder;
use crate::web::connections::{self, ConnectionLimits};
use control::{Control, TestEndpoint};
use directory::WorkDirectory;
pub use error::Error;
use faults::{FaultRule, Faults};
use instance::InstanceOptions;
use states::{StartState, States};

/// Memory for all caches together, in bytes.
const CACHE_BYTES: u64 = 4 << 20;
/// Memory for the bodies of all requests and responses, in bytes.
const BODY_MEMORY_BYTES: u64 = 128 << 20;
/// Number of reading connections of the database.
const DATABASE_CONNECTIONS: u32 = 2;
/// Number of concurrent Git operations.
const GIT_CONCURRENCY: usize = 4;
/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 1024;
/// Maximum time of a request in seconds: longer than any delay of a fault.
const REQUEST_SECONDS: u64 = 120;
/// Time for open requests to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Options of a test server.
#[derive(Debug, Default)]
pub struct TestServerOptions {
    /// Listen address [default: a free port of the loopback address].
    pub listen: Option<SocketAddr>,
    /// Directory that receives the temporary directory.
    pub directory: Option<PathBuf>,
    /// Snapshot with the state at the start; an empty instance if absent.
    pub snapshot: Option<PathBuf>,
    /// Whether the state at the start contains the data of the demo.
    pub demo: bool,
    /// Time at which the clock is frozen.
    pub freeze_time: Option<DateTime<Utc>>,
    /// Faults at the start.
    pub faults: Vec<FaultRule>,
    /// Token of the administrator; generated if absent.
    pub token: Option<Secret>,
    /// Token of the control requests; generated if absent.
    pub control_token: Option<Secret>,
    /// Plan of the instance.
    pub plan: Option<String>,
    /// Whether `X-Service-*` headers are also sent under the names of the reference service.
    pub compat: bool,
    /// Version of the reference service that the API reports with `compat`.
    pub compat_version: Option<String>,
    /// Origins of web pages that can call the API.
    pub cors_origins: Option<Vec<String>>,
}

/// The line that a test server prints when it accepts requests.
#[derive(Debug, Serialize)]
pub struct ServerInfo {
    /// Base URL, also of Git over HTTP.
    pub url: String,
    /// Base URL of the API.
    pub api_url: String,
    /// Username of the administrator.
    pub username: &'static str,
    /// Token of the administrator.
    pub token: String,
    /// Password of the administrator.
    pub password: String,
    /// Base URL of the control requests.
    pub control_url: String,
    /// Token of the control requests.
    pub control_token: String,
    /// Directory of the temporary data.
    pub directory: PathBuf,
    /// ID of the process.
    pub pid: u32,
    /// Version of Holdfast.
    pub version: &'static str,
}

/// A test server that listens but does not accept connections yet.
pub struct TestServer {
    listener: TcpListener,
    limits: ConnectionLimits,
    control: Arc<Control>,
    /// The line to print.
    pub info: ServerInfo,
}

impl TestServer {
    /// Opens an instance with the state of the options in a temporary directory, and binds the address.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn start(options: TestServerOptions) -> Result<Self, Error> {
        let address = options
            .listen
            .unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let listener = listen(None, address)?;
        let address = listener.local_addr().unwrap_or(address);
        let work = WorkDirectory::create(options.directory.clone()).await?;
        let mut settings = ConfigOptions {
            listen: Some(address),
            data_dir: Some(work.path().join("data")),
            plan: options.plan,
            compat: Some(options.compat),
            compat_version: options.compat_version,
            cors_origins: options.cors_origins,
            allow_local_webhooks: Some(true),
            request_timeout: Some(REQUEST_SECONDS),
            database_connections: Some(DATABASE_CONNECTIONS),
            git_concurrency: Some(GIT_CONCURRENCY),
            body_memory_bytes: Some(BODY_MEMORY_BYTES),
            cache_bytes: Some(CACHE_BYTES),
            requests_per_minute_per_user: Some(0),
            requests_per_minute_per_address: Some(0),
            git_processor_seconds_per_client: Some(0),
            received_bytes_per_client: Some(0),
            max_connections: Some(MAX_CONNECTIONS),
            low_disk_bytes: Some(0),
            ..ConfigOptions::default()
        }
        .settings()
        .map_err(super::Error::from)?;
        settings.durable = false;
        let random = || Secret::new(Token::generate("").expose().to_owned());
        let instance = InstanceOptions {
            base_url: public_url(&settings, address),
            token: options.token.unwrap_or_else(random),
            faults: Arc::new(Faults::new(options.faults)),
            settings,
        };
        let instance = Arc::new(instance);
        let limits = ConnectionLimits {
            connections: instance.settings.max_connections,
            idle: instance.settings.idle_timeout,
            drain: DRAIN,
            quiet: Duration::ZERO,
            unread: connections::WRITE_TIMEOUT,
        };
        let start = match options.snapshot {
            Some(path) => StartState::Snapshot(path),
            None => StartState::Empty,
        };
        let (url, token) = (instance.base_url.clone(), instance.token.expose().clone());
        let control_token = options.control_token.unwrap_or_else(random);
        let directory = work.path().to_owned();
        let states = States::open(work, Arc::clone(&instance), start, options.freeze_time).await?;
        if options.demo {
            let backend = states.switch().current().backend.clone();
            let password = Secret::new(states.password());
            demo::fill(&backend, &instance.settings, &instance.token, &password).await?;
            // The state that a reset restores.
            states.save(None).await?;
        }
        let info = ServerInfo {
            api_url: format!("{url}/api/v4"),
            control_url: format!("{url}{}", control::PATH),
            url,
            username: "root",
            token,
            password: states.password(),
            control_token: control_token.expose().clone(),
            directory,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION"),
        };
        Ok(Self {
            listener,
            limits,
            control: Arc::new(Control::new(states, control_token)),
            info,
        })
    }

    /// Serves until `stop` resolves, then removes the temporary directory.
    ///
    /// # Errors
    /// [`Error`] if the directory cannot be removed.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let upkeep = CancellationToken::new();
        // The first scrape installs the recorder: it calibrates its clock, which takes longer than the start.
        tokio::spawn(recorder::run_upkeep(upkeep.clone()));
        tokio::spawn(check_environment(self.info.directory));
        let endpoint = TestEndpoint::new(Arc::clone(&self.control)).map_to_response();
        connections::serve(self.listener, endpoint, self.limits, stop).await;
        upkeep.cancel();
        let removed = self.control.states().close().await;
        clock::freeze(None);
        removed
    }
}

/// Checks the `git` program, and removes the directories of killed servers. Both run after the start, because they take longer
/// than the start.
async fn check_environment(directory: PathBuf) {
    if let Err(error) = super::check_git().await {
        tracing::error!(%error, "Git programs cannot be used");
    }
    match tokio::task::spawn_blocking(move || directory::remove_abandoned(&directory)).await {
        Ok(0) | Err(_) => {}
        Ok(removed) => tracing::info!(removed, "removed the directories of killed test servers"),
    }
}
