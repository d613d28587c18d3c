//! One state of a test server: an opened instance with its endpoint and its background jobs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::kernel::Backend;
use domain::operations::first_start;
use domain::operations::instance_identity::{OpenMode, ServeLock};
use domain::operations::startup::{self, NodeRegistration};
use domain::secrets::Secret;
use poem::endpoint::BoxEndpoint;
use poem::{EndpointExt, Response};
use storage::jobs::{JobRunner, RunnerOptions};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Error;
use super::faults::{FaultMiddleware, Faults};
use crate::app;
use crate::config::ServerSettings;
use crate::server::{REF_UPDATE_DRAIN, open_as};
use crate::web;
use crate::worker;

/// Time for running jobs to finish when a state is discarded.
const JOB_DRAIN: Duration = Duration::from_secs(1);
/// Delay of the recurring work: most states do not last so long.
const RECURRING_DELAY: Duration = Duration::from_secs(10);

/// Parts that all states of a test server share.
pub(super) struct InstanceOptions {
    /// Settings. The data directory differs for each state.
    pub(super) settings: ServerSettings,
    /// Public URL.
    pub(super) base_url: String,
    /// Token of the administrator.
    pub(super) token: Secret,
    /// The faults.
    pub(super) faults: Arc<Faults>,
}

impl InstanceOptions {
    /// Returns the settings with a data directory.
    fn settings(&self, data: &Path) -> ServerSettings {
        ServerSettings {
            data_dir: data.to_owned(),
            database_url: format!("sqlite://{}", data.join("holdfast.db").display()),
            ..self.settings.clone()
        }
    }
}

/// An opened instance.
pub(super) struct Instance {
    /// Endpoint of all requests.
    pub(super) endpoint: BoxEndpoint<'static, Response>,
    /// The backend of the services.
    pub(super) backend: Backend,
    /// Requests in progress.
    pub(super) requests: TaskTracker,
    data: PathBuf,
    stopping: CancellationToken,
    open: Mutex<Option<OpenParts>>,
}

/// Parts that end when the instance is closed.
struct OpenParts {
    jobs: Option<JoinHandle<()>>,
    _presence: NodeRegistration,
    _serving: Option<ServeLock>,
}

impl Instance {
    /// Opens a copy of an instance without running its jobs, and sets the token of its administrator.
    ///
    /// # Errors
    /// [`Error`].
    pub(super) async fn open(data: &Path, options: &InstanceOptions) -> Result<Self, Error> {
        let instance = Self::open_new(data, options).await?;
        if let Err(error) = first_start::replace_token(&instance.backend, &options.token).await {
            instance.close().await;
            return Err(error.into());
        }
        Ok(instance)
    }

    /// Runs the jobs of the current state. The jobs of other states do not run, because the clock of the process is that
    /// of the current one.
    pub(super) async fn start_jobs(&self) {
        if let Some(open) = self.open.lock().await.as_mut() {
            let jobs = run_jobs(self.backend.clone(), self.stopping.clone());
            open.jobs = Some(tokio::spawn(jobs));
        }
    }

    /// Opens an instance, or creates an empty one, without running its jobs.
    ///
    /// # Errors
    /// [`Error`].
    pub(super) async fn open_new(data: &Path, options: &InstanceOptions) -> Result<Self, Error> {
        let settings = options.settings(data);
        let (backend, serving) = open_as(&settings, None, options.base_url.clone(), OpenMode::Create).await?;
        let presence = startup::register_node(&backend, data).await?;
        let services = app::services(&backend, &settings).with(FaultMiddleware {
            faults: Arc::clone(&options.faults),
        });
        Ok(Self {
            endpoint: web::wrap(services, &backend, &settings).boxed(),
            backend,
            requests: TaskTracker::new(),
            data: data.to_owned(),
            stopping: CancellationToken::new(),
            open: Mutex::new(Some(OpenParts {
                jobs: None,
                _presence: presence,
                _serving: serving,
            })),
        })
    }

    /// Returns the data directory.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Stops the jobs and closes the database. Then no process of this server changes the data directory, except requests
    /// that are still in progress.
    pub(super) async fn close(&self) {
        self.stopping.cancel();
        let Some(open) = self.open.lock().await.take() else {
            return;
        };
        if let Some(jobs) = open.jobs
            && let Err(error) = jobs.await
        {
            tracing::error!(%error, "failed to stop the jobs");
        }
        let updates = &self.backend.ref_update_tasks;
        updates.close();
        if tokio::time::timeout(REF_UPDATE_DRAIN, updates.wait())
            .await
            .is_err()
        {
            tracing::warn!("discarded a state before all ref updates were recorded");
        }
        if let Err(error) = self.backend.database.clone().close().await {
            tracing::warn!(%error, "failed to close the database of a state");
        }
    }
}

/// Runs background jobs and recurring work until `stopping`.
async fn run_jobs(backend: Backend, stopping: CancellationToken) {
    let options = RunnerOptions {
        drain: JOB_DRAIN,
        ..RunnerOptions::default()
    };
    let runner = JobRunner::new(backend.database.clone(), worker::registry(&backend), options);
    let recurring = async {
        let delay = tokio::time::sleep(RECURRING_DELAY);
        if stopping.run_until_cancelled(delay).await.is_some() {
            worker::recur(backend, stopping.clone()).await;
        }
    };
    tokio::join!(runner.run(stopping.clone().cancelled_owned()), recurring);
}
