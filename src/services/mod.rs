//! The rules of the domain, one module an area: what is allowed, what changes together, what follows from it.
//!
//! A service takes the access its caller was granted (see [`access`]), so it cannot be reached unchecked, and
//! answers in entities and plain types; it knows nothing of HTTP.

pub mod access;
pub mod access_tokens;
pub mod attempts;
pub mod authentication;
pub mod avatars;
pub mod award_emoji;
pub mod backups;
pub mod badges;
pub mod boards;
pub mod branches;
pub mod clusters;
pub mod code_analysis;
pub mod commit_statuses;
pub mod commits;
pub mod cron;
pub mod custom_attributes;
pub mod deploy_keys;
pub mod deployments;
pub mod doctor;
pub mod durations;
pub mod environments;
pub mod epics;
pub mod events;
pub mod feature_flag_user_lists;
pub mod feature_flags;
pub mod feature_gates;
pub mod files;
pub mod freeze_periods;
pub mod git_access;
pub mod group_transfers;
pub mod groups;
pub mod hooks;
pub mod imports;
pub mod instance;
pub mod issuables;
pub mod issues;
pub mod job_tokens;
pub mod labels;
pub mod links;
pub mod listing;
pub mod members;
pub mod memory;
pub mod merge_requests;
pub mod metrics_dashboards;
pub mod milestones;
pub mod namespaces;
pub mod naming;
pub mod notes;
pub mod oauth;
pub mod pipeline_schedules;
pub mod pipeline_triggers;
pub mod pipelines;
pub mod places;
pub mod preconditions;
pub mod project_access_tokens;
pub mod projects;
pub mod push_rules;
pub mod pushes;
pub mod raw;
pub(in crate::services) mod reach;
pub mod recovery;
pub mod references;
pub mod registry;
pub mod repositories;
pub(in crate::services) mod saying;
pub mod scim;
pub mod sessions;
pub mod settings;
pub mod setup;
pub mod single_sign_on;
pub mod snippets;
pub mod ssh_keys;
pub mod tags;
pub mod templates;
pub mod texts;
pub mod throttle;
pub mod todos;
pub mod uploads;
pub mod users;
pub mod variables;
pub mod vulnerabilities;

use std::ops::Deref;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::database::{self, Database};

use crate::entities::iid_counters;
use crate::error::Error;
use crate::git;
use crate::integrations::object_storage::ObjectStorage;
use crate::integrations::webhooks;
use crate::policy::Tier;
use crate::secrets::Keyring;

/// What every service works with. Cloning costs a reference count.
#[derive(Clone)]
pub struct Backend(Arc<Parts>);

/// The parts of a [`Backend`].
pub struct Parts {
    /// The database.
    pub database: Database,
    /// The repositories.
    pub repositories: git::Store,
    /// The files that are kept beside the repositories.
    pub objects: ObjectStorage,
    /// The keys that stored secrets are encrypted with.
    pub keyring: Keyring,
    /// What sends webhooks.
    pub webhooks: webhooks::Client,
    /// What the instance is.
    pub instance: Instance,
    /// What is remembered of the database.
    pub memory: memory::Memory,
    /// Moves of references and parts of blobs that are under way, also those that nobody waits for any more.
    pub moves: TaskTracker,
    /// Places for blobs of images that are being received.
    pub places: registry::places::Places,
}

/// What the instance is, by its configuration.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The public address, without a final slash.
    pub base_url: String,
    /// The plan it runs under.
    pub plan: Tier,
    /// The largest layer of a container image, in bytes.
    pub max_layer_bytes: u64,
    /// Days that images without a tag are kept; 0 keeps them for ever.
    pub untagged_image_days: u32,
    /// Accounts that the identity provider of one group may make.
    pub max_scim_users: u32,
    /// Whether `X-Service-*` headers are repeated under the names of the reference service.
    pub compat: bool,
}

impl Backend {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for Backend {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl From<sea_orm::DbErr> for Error {
    fn from(error: sea_orm::DbErr) -> Self {
        if iid_counters::are_used_up(&error) {
            return Self::Refused("There are no numbers left".into());
        }
        match database::is_deadlock(&error) {
            true => Self::Busy,
            false => Self::internal(error),
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
        Self::internal(error)
    }
}

/// Failures of Git that no rule of a service gave a meaning to.
impl From<git::Error> for Error {
    fn from(error: git::Error) -> Self {
        match error {
            git::Error::RevisionNotFound => Self::not_found("Commit"),
            git::Error::BranchNotFound => Self::not_found("Branch"),
            git::Error::TagNotFound => Self::not_found("Tag"),
            git::Error::Protocol(text) => Self::Refused(text.into()),
            git::Error::RepositoryMissing => Self::not_found("Repository"),
            git::Error::Locked => Self::Conflict("409 Conflict: Resource lock".into()),
            git::Error::Timeout | git::Error::Busy(_) => Self::TimedOut,
            git::Error::LimitExceeded(text) => Self::Refused(text.into()),
            other => Self::internal(other),
        }
    }
}
