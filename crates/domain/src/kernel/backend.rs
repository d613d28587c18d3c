//! The context that all services share.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use storage::database::{self, Database};
use storage::entities::iid_counters;
use tokio_util::task::TaskTracker;

use crate::integrations::git_remotes::GitRemoteClient;
use crate::integrations::object_storage::ObjectStorage;
use crate::integrations::webhooks;
use crate::kernel::budgets::{Budgets, PayloadSlots, UploadSlots};
use crate::kernel::cache::Caches;
use crate::kernel::error::Error;
use crate::kernel::fetch_counter::FetchCounter;
use crate::kernel::policy::InstancePlan;
use crate::kernel::record_validator::RecordValidator;
use crate::kernel::ref_changes::RefUpdateListener;
use crate::secrets::Keyring;

/// Shared context of all services. Cloning increments a reference count.
#[derive(Clone)]
pub struct Backend(Arc<BackendParts>);

/// The parts of a [`Backend`].
pub struct BackendParts {
    /// The database.
    pub database: Database,
    /// The repositories.
    pub repositories: git::RepositoryStore,
    /// Object storage for files outside of repositories.
    pub objects: ObjectStorage,
    /// Keys for encrypting stored secrets.
    pub keyring: Keyring,
    /// Client for webhooks.
    pub webhooks: webhooks::WebhookClient,
    /// Client for remote repositories.
    pub git_remotes: GitRemoteClient,
    /// Configuration of the instance.
    pub instance: Instance,
    /// Returns the text of an error that clients read later, from a stored row.
    pub stored_reason: fn(&Error) -> String,
    /// Checks records of imported archives.
    pub record_validator: Arc<dyn RecordValidator>,
    /// Areas that react to ref updates. Their effects are recorded in this order.
    pub ref_update_listeners: Vec<Box<dyn RefUpdateListener>>,
    /// Caches of database rows.
    pub caches: Caches,
    /// Ref updates and blob uploads in progress, including those whose client disconnected.
    pub ref_update_tasks: TaskTracker,
    /// Limits of what requests may hold at the same time.
    pub budgets: Budgets,
    /// Slots for uploads of registry blobs and package files.
    pub upload_slots: UploadSlots,
    /// Slots for payloads of webhooks and external status checks.
    pub payload_slots: PayloadSlots,
    /// Fetches that are not recorded yet.
    pub fetches: FetchCounter,
}

/// Configuration of the instance.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Public URL, without a trailing slash.
    pub base_url: String,
    /// Plan of the instance.
    pub plan: InstancePlan,
    /// Maximum size of an image layer, in bytes.
    pub max_layer_bytes: u64,
    /// Maximum size of a file of a package, in bytes.
    pub max_package_file_bytes: u64,
    /// Maximum total size of the files of the packages of a project, in bytes.
    pub max_project_package_bytes: u64,
    /// Maximum size of a file in a JSON response, in bytes.
    pub max_json_file_bytes: u64,
    /// Maximum size of a pack that is pushed to a repository or fetched by a mirror, in bytes.
    pub max_push_bytes: u64,
    /// Minutes between the updates of a pull mirror.
    pub pull_mirror_minutes: u32,
    /// Days after which untagged images are deleted; 0 disables the deletion.
    pub untagged_image_days: u32,
    /// Maximum number of accounts that the identity provider of one group may create.
    pub max_scim_users: u32,
    /// Directory of the repositories, the key and the embedded database.
    pub data_dir: PathBuf,
    /// Free disk space below which the instance reports low space, in bytes.
    pub low_disk_bytes: u64,
    /// Whether `X-Service-*` headers are also sent under the names of the reference service.
    pub compat: bool,
    /// Version that the API reports: that of the reference service with `compat`, otherwise that of this server.
    pub reported_version: String,
}

impl Backend {
    /// Creates the context from its parts.
    #[must_use]
    pub fn new(parts: BackendParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for Backend {
    type Target = BackendParts;

    fn deref(&self) -> &BackendParts {
        &self.0
    }
}

impl From<sea_orm::DbErr> for Error {
    fn from(error: sea_orm::DbErr) -> Self {
        if iid_counters::is_exhausted(&error) {
            return Self::Rejected("The project has reached the maximum number of items".into());
        }
        if database::is_deadlock(&error) {
            return Self::Contention;
        }
        if database::is_time_exceeded(&error) {
            return Self::TimedOut;
        }
        if database::is_busy(&error) {
            return Self::DatabaseBusy;
        }
        match error {
            sea_orm::DbErr::ConnectionAcquire(sea_orm::ConnAcquireErr::Timeout) => Self::DatabaseBusy,
            error => Self::internal(error),
        }
    }
}

impl From<crate::integrations::object_storage::Error> for Error {
    fn from(error: crate::integrations::object_storage::Error) -> Self {
        Self::internal(error)
    }
}

impl From<crate::secrets::Error> for Error {
    fn from(error: crate::secrets::Error) -> Self {
        match error {
            crate::secrets::Error::Database(error) => error.into(),
            error => Self::internal(error),
        }
    }
}

/// Maps Git errors that no service has handled specifically.
impl From<git::Error> for Error {
    fn from(error: git::Error) -> Self {
        match error {
            git::Error::RevisionNotFound => Self::not_found("Commit"),
            git::Error::BranchNotFound => Self::not_found("Branch"),
            git::Error::TagNotFound => Self::not_found("Tag"),
            git::Error::Protocol(text) => Self::Rejected(text.into()),
            git::Error::RepositoryMissing => Self::not_found("Repository"),
            git::Error::Locked => Self::ResourceLocked,
            git::Error::Timeout => Self::TimedOut,
            git::Error::Busy(_) => Self::Busy,
            git::Error::LimitExceeded(text) => Self::Rejected(text.into()),
            git::Error::MemoryExhausted => Self::Overloaded,
            git::Error::ProcessorTimeUsed(wait) => {
                let seconds = wait.as_secs().saturating_add(1);
                Self::RateLimited(seconds).because_of("git_processor_seconds_per_client")
            }
            other => Self::internal(other),
        }
    }
}
