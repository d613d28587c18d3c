//! Starting and stopping: from settings to a listening server, and from a signal to a clean end.

pub mod demo;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app;
use crate::config::{Options, Settings};
use crate::database::{self, Database};
use crate::git::Store;
use crate::integrations::object_storage::{self, ObjectStorage};
use crate::integrations::webhooks;
use crate::jobs::{self, Job, Runner};
use crate::secrets::{Keyring, Secret};
use crate::services::instance::{self, DataDirectory, DatabaseKind, Opening, Serving};
use crate::services::memory::Memory;
use crate::services::recovery::{self, Presence};
use crate::services::registry::places::Places;
use crate::services::setup::{self, Chosen, MadeUp};
use crate::services::{Backend, Instance, Parts};
use crate::web::connections::{self, Limits};
use crate::web::health;

/// How long what moves references may take to note its end, after the requests are over.
const SETTLING: Duration = Duration::from_secs(5);
/// How many hooks are delivered to at a time; most of that time is waiting.
const DELIVERIES: usize = 64;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] crate::config::Error),
    /// The data directory or the network cannot be used.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// The database cannot be used.
    #[error("database: {0}")]
    Database(#[from] database::Error),
    /// The repositories cannot be used.
    #[error("repositories: {0}")]
    Repositories(#[from] crate::git::Error),
    /// The object storage cannot be used.
    #[error("object storage: {0}")]
    Objects(#[from] object_storage::Error),
    /// The key file cannot be used.
    #[error("key file: {0}")]
    Keys(#[from] crate::secrets::Error),
    /// Webhooks cannot be sent.
    #[error(transparent)]
    Webhooks(#[from] webhooks::Unavailable),
    /// The demo cannot be filled.
    #[error("demo: {0}")]
    Demo(String),
    /// The data directory and the database do not belong together.
    #[error(transparent)]
    Instance(#[from] instance::Error),
    /// The first administrator cannot be made, or what a killed server left cannot be finished.
    #[error("start: {0}")]
    Setup(#[from] crate::error::Error),
}

/// Opens everything the services work with, of an instance that exists: no part of it is created. Migrates the database.
///
/// # Errors
/// When any part cannot be opened, or the data directory and the database do not belong together.
pub async fn open(
    settings: &Settings,
    observer: Option<database::Observer>,
    base_url: String,
) -> Result<Backend, Error> {
    let opened = open_as(settings, observer, base_url, Opening::Existing).await?;
    Ok(opened.0)
}

async fn open_as(
    settings: &Settings,
    observer: Option<database::Observer>,
    base_url: String,
    opening: Opening,
) -> Result<(Backend, Option<Serving>), Error> {
    let directory = settings.data_dir.clone();
    let identity = DataDirectory::read(&directory, &settings.database_url, opening)?;
    // Before the database is opened, so that the second of two first starts never meets a half-made one.
    let serving = match (opening, DatabaseKind::of_url(&settings.database_url)) {
        (Opening::Create, DatabaseKind::Sqlite) => Some(instance::serve_alone(&directory)?),
        _ => None,
    };
    let options = database::Options {
        max_connections: settings.database_connections,
        observer,
        must_exist: identity.needs_database(),
        ..database::Options::default()
    };
    let database = Database::connect(&settings.database_url, &options).await?;
    identity.check(&database).await?;
    if opening == Opening::Create {
        tokio::fs::create_dir_all(&directory)
            .await
            .map_err(|cause| Error::Io {
                what: format!("data directory {}", directory.display()),
                cause,
            })?;
    }
    database.migrate().await.map_err(database::Error::from)?;
    let concurrency = settings.git_concurrency;
    let objects = settings.object_store_url.clone();
    let prepare = move || -> Result<(Keyring, Store, ObjectStorage), Error> {
        let key = directory.join(instance::KEY);
        let keyring = match opening {
            Opening::Create => Keyring::open(&key)?,
            Opening::Existing => Keyring::open_existing(&key)?,
        };
        let objects = ObjectStorage::open(objects.as_deref(), &directory)?;
        let repositories = Store::new(directory.join(instance::REPOSITORIES), concurrency)?;
        Ok((keyring, repositories, objects))
    };
    let (keyring, repositories, objects) = tokio::task::spawn_blocking(prepare)
        .await
        .map_err(|error| Error::Setup(crate::error::Error::internal(error)))??;
    identity.claim(&database, &keyring).await?;
    let instance = Instance {
        base_url,
        plan: settings.plan,
        max_layer_bytes: settings.max_layer_bytes,
        untagged_image_days: settings.untagged_image_days,
        max_scim_users: settings.max_scim_users,
        compat: settings.compat,
    };
    let webhooks = webhooks::Client::new(settings.allow_local_webhooks)?;
    let backend = Backend::new(Parts {
        database,
        repositories,
        objects,
        keyring,
        webhooks,
        instance,
        memory: Memory::default(),
        moves: TaskTracker::new(),
        places: Places::default(),
    });
    Ok((backend, serving))
}

/// What the first administrator is to have, by the options.
#[must_use]
pub fn chosen(options: &Options) -> Chosen {
    let secret = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(Secret::new);
    Chosen {
        token: secret(&options.root_token),
        password: secret(&options.root_password),
    }
}

/// A server that listens but does not serve yet.
pub struct Bound {
    listener: TcpListener,
    settings: Settings,
    _presence: Presence,
    _serving: Option<Serving>,
    /// What the services work with.
    pub backend: Backend,
    /// The address it listens on.
    pub address: SocketAddr,
    /// What was made up at a first start.
    pub made_up: Option<MadeUp>,
}

/// Opens everything and binds the address; after this, connections wait instead of failing.
///
/// # Errors
/// When anything cannot be opened or the address cannot be bound.
pub async fn bind(
    settings: Settings,
    chosen: Chosen,
    observer: Option<database::Observer>,
) -> Result<Bound, Error> {
    health::recorder();
    let io = |cause| Error::Io {
        what: format!("cannot listen on {}", settings.listen),
        cause,
    };
    let listener = listen(settings.listen).map_err(io)?;
    let address = listener.local_addr().unwrap_or(settings.listen);
    let base_url = public_url(&settings, address);
    let (backend, serving) = open_as(&settings, observer, base_url, Opening::Create).await?;
    let presence = recovery::arrive(&backend, &settings.data_dir).await?;
    let made_up = setup::first_start(&backend, chosen).await?;
    Ok(Bound {
        listener,
        settings,
        _presence: presence,
        _serving: serving,
        backend,
        address,
        made_up,
    })
}

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens, so that answers sent in several pieces do not wait for the client to acknowledge each.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    // What is accepted inherits it.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Bound {
    /// Fills a new instance with what the demo shows, before it serves; see [`demo::fill`].
    ///
    /// # Errors
    /// When the API refuses anything of it.
    pub async fn fill(&self, token: &Secret, password: &Secret) -> Result<(), Error> {
        demo::fill(&self.backend, &self.settings, token, password).await
    }

    /// Serves until `stop` resolves, then finishes what is open within the drain time.
    ///
    /// # Errors
    /// When background work or the database cannot be ended.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let endpoint = app::endpoint(&self.backend, &self.settings);
        let drain = self.settings.drain_timeout;
        let stopping = CancellationToken::new();
        let worker = self
            .settings
            .worker
            .then(|| tokio::spawn(run_jobs(self.backend.clone(), drain, stopping.clone())));
        let stop = async {
            stop.await;
            stopping.cancel();
        };
        let limits = Limits {
            connections: self.settings.max_connections,
            idle: self.settings.idle_timeout,
            drain,
        };
        connections::serve(self.listener, endpoint, limits, stop).await;
        stopping.cancel();
        if let Some(worker) = worker {
            worker
                .await
                .map_err(|error| Error::Setup(crate::error::Error::internal(error)))?;
        }
        // Moves of references outlive the requests that were cut, and so does what came of blobs: they note what they came to.
        self.backend.moves.close();
        if tokio::time::timeout(SETTLING, self.backend.moves.wait())
            .await
            .is_err()
        {
            tracing::warn!("moves of references are left to be recovered");
        }
        self.backend
            .database
            .clone()
            .close()
            .await
            .map_err(database::Error::from)?;
        Ok(())
    }
}

/// Runs background jobs and recurring work until `stopping`; what runs then has `drain` to finish.
async fn run_jobs(backend: Backend, drain: Duration, stopping: CancellationToken) {
    let options = jobs::Options {
        drain,
        ..jobs::Options::default()
    };
    // Receivers may be slow, so deliveries have places of their own and never wait for other jobs, nor these for them.
    let (deliveries, others) = jobs::registry(&backend).divide(&[jobs::deliver_hook::DeliverHook::KIND]);
    // Imports may take long: one runs at a time, and nothing else waits for it.
    let (imports, others) = others.divide(&[jobs::import_group::ImportGroup::KIND]);
    let importer = jobs::Options {
        concurrency: 1,
        ..options.clone()
    };
    let deliverer = jobs::Options {
        concurrency: DELIVERIES,
        ..options.clone()
    };
    let runner = Runner::new(backend.database.clone(), others, options);
    let importer = Runner::new(backend.database.clone(), imports, importer);
    let deliverer = Runner::new(backend.database.clone(), deliveries, deliverer);
    tokio::join!(
        runner.run(stopping.clone().cancelled_owned()),
        deliverer.run(stopping.clone().cancelled_owned()),
        importer.run(stopping.clone().cancelled_owned()),
        jobs::recur(backend, stopping),
    );
}

/// Runs only background jobs until `stop` resolves, beside servers that need not.
///
/// # Errors
/// When anything cannot be opened.
pub async fn work(settings: &Settings, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let base_url = public_url(settings, settings.listen);
    let backend = open(settings, None, base_url).await?;
    let _presence = recovery::arrive(&backend, &settings.data_dir).await?;
    let stopping = CancellationToken::new();
    let jobs = run_jobs(backend.clone(), settings.drain_timeout, stopping.clone());
    let stop = async {
        stop.await;
        stopping.cancel();
    };
    tokio::join!(jobs, stop);
    backend
        .database
        .clone()
        .close()
        .await
        .map_err(database::Error::from)?;
    Ok(())
}

/// The address clients see: the one that was set, or the one that is listened on.
#[must_use]
pub fn public_url(settings: &Settings, address: SocketAddr) -> String {
    let set = settings.base_url.clone();
    set.unwrap_or_else(|| format!("http://{address}"))
}
