//! Starting and stopping: from settings to a listening server, and from a signal to a clean end.

use std::future::Future;
use std::net::SocketAddr;

use poem::Server;
use poem::listener::{Acceptor, Listener, TcpListener};

use crate::app;
use crate::config::{Options, Settings};
use crate::database::{self, Database};
use crate::git::Store;
use crate::secrets::{Keyring, Secret};
use crate::services::setup::{self, Chosen, MadeUp};
use crate::services::{Backend, Instance, Parts};
use crate::web::health;

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
    /// The key file cannot be used.
    #[error("key file: {0}")]
    Keys(#[from] crate::secrets::Error),
    /// The first administrator cannot be made.
    #[error("first start: {0}")]
    Setup(#[from] crate::error::Error),
}

/// Opens everything the services work with; migrates the database and prepares the data directory.
///
/// # Errors
/// When any part cannot be opened.
pub async fn open(
    settings: &Settings,
    observer: Option<database::Observer>,
    base_url: String,
) -> Result<Backend, Error> {
    let directory = settings.data_dir.clone();
    tokio::fs::create_dir_all(&directory)
        .await
        .map_err(|cause| Error::Io {
            what: format!("data directory {}", directory.display()),
            cause,
        })?;
    let options = database::Options {
        max_connections: settings.database_connections,
        observer,
        ..database::Options::default()
    };
    let database = Database::connect(&settings.database_url, &options).await?;
    database.migrate().await.map_err(database::Error::from)?;
    let concurrency = settings.git_concurrency;
    let prepare = move || -> Result<(Keyring, Store), Error> {
        let keyring = Keyring::open(&directory.join("secret.key"))?;
        Ok((keyring, Store::new(directory.join("repositories"), concurrency)?))
    };
    let (keyring, repositories) = tokio::task::spawn_blocking(prepare)
        .await
        .map_err(|error| Error::Setup(crate::error::Error::internal(error)))??;
    let instance = Instance {
        base_url,
        plan: settings.plan,
    };
    Ok(Backend::new(Parts {
        database,
        repositories,
        keyring,
        instance,
    }))
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
pub struct Bound<A> {
    acceptor: A,
    settings: Settings,
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
) -> Result<Bound<impl Acceptor>, Error> {
    health::recorder();
    let io = |cause| Error::Io {
        what: format!("cannot listen on {}", settings.listen),
        cause,
    };
    let acceptor = TcpListener::bind(settings.listen)
        .into_acceptor()
        .await
        .map_err(io)?;
    let local = acceptor
        .local_addr()
        .into_iter()
        .find_map(|address| address.as_socket_addr().copied());
    let address = local.unwrap_or(settings.listen);
    let base_url = settings
        .base_url
        .clone()
        .unwrap_or_else(|| format!("http://{address}"));
    let backend = open(&settings, observer, base_url).await?;
    let made_up = setup::first_start(&backend, chosen).await?;
    Ok(Bound {
        acceptor,
        settings,
        backend,
        address,
        made_up,
    })
}

impl<A: Acceptor + 'static> Bound<A> {
    /// Serves until `stop` resolves, then finishes what is open within the drain time.
    ///
    /// # Errors
    /// When the listener breaks.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let endpoint = app::endpoint(&self.backend, &self.settings);
        let drain = self.settings.drain_timeout;
        Server::new_with_acceptor(self.acceptor)
            .run_with_graceful_shutdown(endpoint, stop, Some(drain))
            .await
            .map_err(|cause| Error::Io {
                what: "serving".to_owned(),
                cause,
            })?;
        self.backend
            .database
            .clone()
            .close()
            .await
            .map_err(database::Error::from)?;
        Ok(())
    }
}
