//! Startup and shutdown of the server.

pub mod demo;
mod error;
mod job_runners;
mod listeners;
mod supervisor;
pub mod test_server;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::code::fetch_statistics;
use domain::code::push_events::PushEvents;
use domain::integrations::git_remotes::GitRemoteClient;
use domain::integrations::object_storage::ObjectStorage;
use domain::integrations::webhooks;
use domain::kernel::budgets::{BudgetSettings, Budgets, PayloadSlots, UploadSlots};
use domain::kernel::cache::Caches;
use domain::kernel::fetch_counter::FetchCounter;
use domain::kernel::{Backend, BackendParts, Instance};
use domain::mirrors::schedule::MirrorUpdates;
use domain::operations::first_start::{self, GeneratedCredentials, GivenCredentials};
use domain::operations::instance_identity::{self, DataDirectory, DatabaseKind, OpenMode, ServeLock};
use domain::operations::startup::{self, NodeRegistration};
use domain::operations::{data_directory, git_program, git_sandbox};
use domain::review::merge_requests::MergeRequestUpdates;
use domain::secrets::{Keyring, Secret};
use git::{RepositoryStore, StoreLimits};
use storage::database::{self, Database};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use error::Error;
use job_runners::run_jobs;
use listeners::listen;
pub use listeners::{InheritedSocket, inherited_socket};
use supervisor::Supervisor;

use crate::api::error_response;
use crate::api::record_validator::ContractValidator;
use crate::app;
use crate::config::{ConfigOptions, ServerSettings};
use crate::observability::recorder;
use crate::web::connections::{self, ConnectionLimits};
use crate::web::health;
use crate::worker;

/// How long ref updates may take to record their result, after the requests and jobs are finished.
const REF_UPDATE_DRAIN: Duration = Duration::from_secs(5);
/// Time after which PostgreSQL cancels a statement of a server: much longer than any statement of a job takes, but not
/// endless, so that statements of canceled requests end.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Time without traffic after which a connection of an inherited socket is closed when the server stops. A request that
/// a client sent before the client received `Connection: close` arrives within this time.
const QUIET_TIME: Duration = Duration::from_millis(500);

/// Opens the backend of an existing instance and migrates its database. Creates no part of the instance.
///
/// # Errors
/// If a part cannot be opened, or the data directory and the database belong to different instances.
pub async fn open(
    settings: &ServerSettings,
    observer: Option<database::StatementObserver>,
    base_url: String,
) -> Result<Backend, Error> {
    let opened = open_as(settings, observer, base_url, OpenMode::Existing).await?;
    Ok(opened.0)
}

async fn open_as(
    settings: &ServerSettings,
    observer: Option<database::StatementObserver>,
    base_url: String,
    opening: OpenMode,
) -> Result<(Backend, Option<ServeLock>), Error> {
    let directory = settings.data_dir.clone();
    let mut identity = DataDirectory::open(&directory, &settings.database_url, opening)?;
    let mut lock = None;
    if identity.instance_id().is_some() {
        lock = Some(instance_identity::lock_database(&directory)?);
        // The database may have been moved before the lock was acquired.
        identity = DataDirectory::open(&directory, &settings.database_url, opening)?;
    }
    // Before the database is opened, so that the second of two first starts never meets a half-made one.
    let serving = match (opening, DatabaseKind::of_url(&settings.database_url)) {
        (OpenMode::Create, DatabaseKind::Sqlite) => Some(instance_identity::lock_directory(&directory)?),
        _ => None,
    };
    let options = database::DatabaseOptions {
        max_connections: settings.database_connections,
        observer,
        must_exist: identity.needs_database(),
        // Backups copy whole tables in one statement, so commands have no limit.
        statement_timeout: match opening {
            OpenMode::Create => STATEMENT_TIMEOUT,
            OpenMode::Existing => Duration::ZERO,
        },
        durable: settings.durable,
        ..database::DatabaseOptions::default()
    };
    let database = Database::connect(&settings.database_url, &options).await?;
    identity.check(&database).await?;
    if opening == OpenMode::Create {
        create_directory(&directory).await?;
    }
    database.migrate().await?;
    let limits = StoreLimits {
        concurrency: settings.git_concurrency,
        memory_bytes: settings.git_memory_bytes,
        max_push_bytes: settings.max_push_bytes,
        cache_bytes: settings.caches.git,
    };
    let objects = settings.object_store_url.clone();
    let prepare = move || -> Result<(Keyring, RepositoryStore, ObjectStorage), Error> {
        let key = directory.join(instance_identity::KEY);
        let keyring = match opening {
            OpenMode::Create => Keyring::open(&key)?,
            OpenMode::Existing => Keyring::open_existing(&key)?,
        };
        let objects = ObjectStorage::open(objects.as_deref(), &directory)?;
        let root = directory.join(instance_identity::REPOSITORIES);
        let repositories = RepositoryStore::with_limits(root, limits)?;
        Ok((keyring, repositories, objects))
    };
    let (keyring, repositories, objects) = tokio::task::spawn_blocking(prepare)
        .await
        .map_err(|error| Error::Setup(domain::kernel::error::Error::internal(error)))??;
    identity.claim(&database, &keyring).await?;
    if opening == OpenMode::Create && settings.object_store_url.is_some() {
        startup::mark_objects(&database, &objects).await?;
    }
    let lock = match lock {
        Some(lock) => lock,
        None => instance_identity::lock_database(&settings.data_dir)?,
    };
    let database = database.with_guard(lock);
    keyring.refreshed(&database).await?;
    let instance = Instance {
        base_url,
        plan: settings.plan,
        max_layer_bytes: settings.max_layer_bytes,
        max_package_file_bytes: settings.max_package_file_bytes,
        max_project_package_bytes: settings.max_project_package_bytes,
        max_json_file_bytes: settings.max_json_file_bytes,
        max_push_bytes: settings.max_push_bytes,
        pull_mirror_minutes: settings.pull_mirror_minutes,
        untagged_image_days: settings.untagged_image_days,
        max_scim_users: settings.max_scim_users,
        data_dir: settings.data_dir.clone(),
        low_disk_bytes: settings.low_disk_bytes,
        compat: settings.compat,
        reported_version: match settings.compat {
            true => settings.compat_version.clone(),
            false => env!("CARGO_PKG_VERSION").to_owned(),
        },
    };
    let webhooks = webhooks::WebhookClient::new(settings.allow_local_webhooks);
    let backend = Backend::new(BackendParts {
        stored_reason: error_response::stored_reason,
        record_validator: Arc::new(ContractValidator),
        ref_update_listeners: vec![
            Box::new(PushEvents),
            Box::new(MergeRequestUpdates),
            Box::new(MirrorUpdates),
        ],
        database,
        repositories,
        objects,
        keyring,
        webhooks,
        git_remotes: GitRemoteClient::default(),
        instance,
        caches: Caches::new(settings.caches.rows),
        ref_update_tasks: TaskTracker::new(),
        budgets: Budgets::new(&BudgetSettings {
            memory_bytes: settings.body_memory_bytes,
            requests_per_minute_per_user: settings.requests_per_minute_per_user,
            requests_per_minute_per_address: settings.requests_per_minute_per_address,
            database_connections: settings.database_connections,
            database_seconds: settings.database_seconds,
            git_processor_seconds_per_client: settings.git_processor_seconds_per_client,
            received_bytes_per_client: settings.received_bytes_per_client,
        }),
        upload_slots: UploadSlots::default(),
        payload_slots: PayloadSlots::default(),
        fetches: FetchCounter::default(),
    });
    Ok((backend, serving))
}

/// Creates the data directory if it does not exist, and excludes other users from it.
async fn create_directory(directory: &Path) -> Result<(), Error> {
    let path = directory.to_owned();
    let create = move || {
        std::fs::create_dir_all(&path)?;
        data_directory::restrict(&path)
    };
    let done = tokio::task::spawn_blocking(create).await;
    done.unwrap_or_else(|error| Err(std::io::Error::other(error)))
        .map_err(|cause| Error::Io {
            what: format!("data directory {}", directory.display()),
            cause,
        })
}

/// Returns the given credentials of the first administrator.
#[must_use]
pub fn given_credentials(options: &ConfigOptions) -> GivenCredentials {
    let secret = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(Secret::new);
    GivenCredentials {
        token: secret(&options.root_token),
        password: secret(&options.root_password),
    }
}

/// A server that listens but does not accept connections yet.
pub struct BoundServer {
    listener: TcpListener,
    is_inherited: bool,
    settings: ServerSettings,
    _presence: NodeRegistration,
    _serving: Option<ServeLock>,
    /// The backend of the services.
    pub backend: Backend,
    /// The listen address.
    pub address: SocketAddr,
    /// Credentials generated at the first start.
    pub generated_credentials: Option<GeneratedCredentials>,
}

/// Opens the backend and binds the address. From then on connections wait instead of failing.
///
/// # Errors
/// If the backend cannot be opened or the address cannot be bound.
pub async fn bind(
    settings: ServerSettings,
    chosen: GivenCredentials,
    observer: Option<database::StatementObserver>,
) -> Result<BoundServer, Error> {
    bind_or_inherit(settings, None, chosen, observer).await
}

/// Like [`bind`], but uses an inherited socket instead of the listen address if there is one.
///
/// # Errors
/// Returns the errors of [`bind`], and [`Error::Socket`] if the socket does not listen.
pub async fn bind_or_inherit(
    settings: ServerSettings,
    inherited: Option<InheritedSocket>,
    chosen: GivenCredentials,
    observer: Option<database::StatementObserver>,
) -> Result<BoundServer, Error> {
    recorder::recorder();
    let is_inherited = inherited.is_some();
    let listener = listen(inherited, settings.listen)?;
    let address = listener.local_addr().unwrap_or(settings.listen);
    let base_url = public_url(&settings, address);
    // Before anything is created.
    check_git().await?;
    let (backend, serving) = open_as(&settings, observer, base_url, OpenMode::Create).await?;
    let presence = startup::register_node(&backend, &settings.data_dir).await?;
    let generated_credentials = first_start::first_start(&backend, chosen).await?;
    Ok(BoundServer {
        listener,
        is_inherited,
        settings,
        _presence: presence,
        _serving: serving,
        backend,
        address,
        generated_credentials,
    })
}

/// Checks the `git` program. Logs a warning if it is old, or if the kernel cannot restrict it.
///
/// # Errors
/// [`Error::Git`] if the program cannot be started.
async fn check_git() -> Result<(), Error> {
    if let Some(warning) = git_program::check().await? {
        tracing::warn!(warning, "the version of Git is too old");
    }
    if let Some(warning) = git_sandbox::warning().await {
        tracing::warn!(warning, "Git programs are not sandboxed");
    }
    Ok(())
}

impl BoundServer {
    /// Fills a new instance with the demo data before it serves requests; see [`demo::fill`].
    ///
    /// # Errors
    /// If the API rejects a request.
    pub async fn fill(&self, token: &Secret, password: &Secret) -> Result<(), Error> {
        demo::fill(&self.backend, &self.settings, token, password).await
    }

    /// Serves until `stop` resolves, then finishes open requests within the drain time.
    ///
    /// # Errors
    /// If the background work or the database cannot be closed.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let endpoint = app::endpoint(&self.backend, &self.settings);
        let drain = self.settings.drain_timeout;
        log_start("server", &self.settings, Some(self.address));
        let supervisor = Supervisor::from_environment();
        let stopping = CancellationToken::new();
        tokio::spawn(worker::remove_abandoned_pushes(stopping.clone()));
        tokio::spawn(recorder::run_upkeep(stopping.clone()));
        let worker = self.settings.worker.then(|| {
            tokio::spawn(run_jobs(
                self.backend.clone(),
                self.settings.data_dir.clone(),
                drain,
                stopping.clone(),
            ))
        });
        let stop = async {
            stop.await;
            tracing::info!("stopping: open requests are finished first");
            supervisor.notify_stopping();
            stopping.cancel();
        };
        let limits = connection_limits(&self.settings, self.is_inherited);
        supervisor.notify_ready();
        let watchdog = supervisor.clone();
        let watchdog = tokio::spawn(async move { watchdog.feed_watchdog().await });
        connections::serve(self.listener, endpoint, limits, stop).await;
        stopping.cancel();
        if let Some(worker) = worker {
            worker
                .await
                .map_err(|error| Error::Setup(domain::kernel::error::Error::internal(error)))?;
        }
        wait_for_ref_updates(&self.backend).await;
        if let Err(error) = fetch_statistics::record(&self.backend).await {
            tracing::warn!(%error, "failed to record the numbers of fetches");
        }
        watchdog.abort();
        close(&self.backend).await
    }
}

/// A process that only runs background jobs.
pub struct Worker {
    /// The backend of the jobs.
    pub backend: Backend,
    settings: ServerSettings,
    listener: Option<TcpListener>,
    is_inherited: bool,
    _presence: NodeRegistration,
    /// Address of the health endpoints, if it has them.
    pub address: Option<SocketAddr>,
}

impl Worker {
    /// Opens the backend of an existing instance. The health endpoints use an inherited socket, or bind their address
    /// if there is one.
    ///
    /// # Errors
    /// If the backend cannot be opened, the address cannot be bound or the socket does not listen.
    pub async fn open(
        settings: ServerSettings,
        inherited: Option<InheritedSocket>,
        observer: Option<database::StatementObserver>,
    ) -> Result<Self, Error> {
        recorder::recorder();
        let is_inherited = inherited.is_some();
        let listener = match (inherited, settings.worker_listen) {
            (Some(socket), _) => Some(listen(Some(socket), settings.listen)?),
            (None, Some(address)) => Some(listen(None, address)?),
            (None, None) => None,
        };
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        check_git().await?;
        let backend = open(&settings, observer, public_url(&settings, settings.listen)).await?;
        let presence = startup::register_node(&backend, &settings.data_dir).await?;
        Ok(Self {
            backend,
            settings,
            listener,
            is_inherited,
            _presence: presence,
            address,
        })
    }

    /// Runs jobs until `stop` resolves; jobs that run then may finish within the drain time.
    ///
    /// # Errors
    /// If the database cannot be closed.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let Self {
            backend, settings, ..
        } = self;
        log_start("worker", &settings, self.address);
        let supervisor = Supervisor::from_environment();
        let stopping = CancellationToken::new();
        let drain = settings.drain_timeout;
        let jobs = run_jobs(
            backend.clone(),
            settings.data_dir.clone(),
            drain,
            stopping.clone(),
        );
        tokio::spawn(recorder::run_upkeep(stopping.clone()));
        let limits = connection_limits(&settings, self.is_inherited);
        let health = async {
            if let Some(listener) = self.listener {
                let endpoint = health::endpoint(&backend);
                connections::serve(listener, endpoint, limits, stopping.cancelled()).await;
            }
        };
        let stop = async {
            stop.await;
            tracing::info!("stopping: running jobs are finished first");
            supervisor.notify_stopping();
            stopping.cancel();
        };
        supervisor.notify_ready();
        let work = async {
            tokio::join!(jobs, health, stop);
            wait_for_ref_updates(&backend).await;
        };
        tokio::select! {
            () = work => {}
            () = supervisor.feed_watchdog() => {}
        }
        close(&backend).await
    }
}

fn connection_limits(settings: &ServerSettings, is_inherited: bool) -> ConnectionLimits {
    ConnectionLimits {
        connections: settings.max_connections,
        idle: settings.idle_timeout,
        drain: settings.drain_timeout,
        quiet: if is_inherited { QUIET_TIME } else { Duration::ZERO },
        unread: connections::WRITE_TIMEOUT,
    }
}

/// Logs the start of a process.
fn log_start(process: &str, settings: &ServerSettings, address: Option<SocketAddr>) {
    tracing::info!(
        process,
        version = env!("CARGO_PKG_VERSION"),
        address = address.map(tracing::field::display),
        data_dir = %settings.data_dir.display(),
        database = ?DatabaseKind::of_url(&settings.database_url),
        "started"
    );
}

/// Waits for the tasks of ref updates and blobs. They outlive canceled requests and jobs, because they must record
/// their results.
async fn wait_for_ref_updates(backend: &Backend) {
    let tasks = &backend.ref_update_tasks;
    tasks.close();
    if tokio::time::timeout(REF_UPDATE_DRAIN, tasks.wait())
        .await
        .is_err()
    {
        tracing::warn!("stopped before all ref updates were recorded");
    }
}

/// Closes the database, as the last step of a process.
async fn close(backend: &Backend) -> Result<(), Error> {
    let closed = backend.database.clone().close().await;
    tracing::info!("stopped");
    closed.map_err(|error| database::Error::from(error).into())
}

/// Returns the configured public URL, or a URL with the listen address. Clients cannot use the address of a server that
/// listens on all addresses.
#[must_use]
pub fn public_url(settings: &ServerSettings, address: SocketAddr) -> String {
    match &settings.base_url {
        Some(set) => set.clone(),
        None if address.ip().is_unspecified() => format!("http://localhost:{}", address.port()),
        None => format!("http://{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_url_is_configured_or_has_an_address_of_clients() {
        let settings = |base_url: Option<&str>| {
            let base_url = base_url.map(str::to_owned);
            let options = ConfigOptions {
                base_url,
                ..ConfigOptions::default()
            };
            options.settings().expect("settings")
        };
        for (base_url, address, expected) in [
            (None, "127.0.0.1:8080", "http://127.0.0.1:8080"),
            (None, "[::1]:8080", "http://[::1]:8080"),
            (None, "0.0.0.0:8080", "http://localhost:8080"),
            (None, "[::]:80", "http://localhost:80"),
            (Some("https://git.example"), "0.0.0.0:8080", "https://git.example"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(public_url(&settings(base_url), address), expected);
        }
    }
}
