//! Caches of database results that cannot have changed since they were read (ADR 50).
//!
//! Only results that depend on the database alone belong here. Refs of repositories qualify: each change of
//! them is recorded in the database before any client learns of it (ADR 6).

use std::sync::Arc;

use chrono::NaiveDate;
use git::Oid;
pub use storage::database::{DataVersion, VersionedCache};
use storage::entities::{access_tokens, namespaces, projects, users};

use crate::kernel::policy::Role;
use crate::kernel::settings::InstanceSettings;

/// Capacity for tokens, and for projects and groups per user: about two kilobytes each.
const MAX_ENTRIES: u64 = 4_096;
/// Capacity for resolved revisions, about 200 bytes each.
const MAX_REVISIONS: u64 = 20_000;

/// The caches.
pub struct Caches {
    /// Tokens with their users, by digest.
    pub(crate) tokens: VersionedCache<String, (Arc<access_tokens::Model>, Arc<users::Model>)>,
    /// Projects with a user's role, by user and reference.
    pub(crate) projects: VersionedCache<(Option<i64>, String), Arc<CachedProject>>,
    /// Groups with a user's role, by user and reference.
    pub(crate) groups: VersionedCache<(Option<i64>, String), Arc<CachedGroup>>,
    /// Settings of the instance.
    pub(crate) settings: VersionedCache<(), InstanceSettings>,
    /// State of feature gates, by query.
    pub(crate) gates: VersionedCache<GateQuery, GateState>,
    /// Hours within which groups require a second factor, by user and day.
    pub(crate) required_by_groups: VersionedCache<(i64, NaiveDate), Option<i32>>,
    /// Commits by project and revision.
    pub(crate) revisions: VersionedCache<(i64, String), Oid>,
}

/// A project with the permissions of a user.
#[derive(Clone)]
pub(crate) struct CachedProject {
    pub(crate) project: projects::Model,
    pub(crate) namespace: namespaces::Model,
    pub(crate) role: Option<Role>,
}

/// A group with the permissions of a user.
#[derive(Clone)]
pub(crate) struct CachedGroup {
    pub(crate) group: namespaces::Model,
    pub(crate) role: Option<Role>,
    pub(crate) above: bool,
}

/// Cache key of a gate: its name, the user, the project and the namespace.
pub(crate) type GateQuery = (String, Option<i64>, Option<i64>, Option<i64>);

/// State of a gate for its actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateState {
    /// The gate was never set.
    Unset,
    /// The gate is open.
    Open,
    /// The gate is open for this percentage of requests.
    Sometimes(i32),
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            tokens: VersionedCache::new(MAX_ENTRIES, |_| 1),
            projects: VersionedCache::new(MAX_ENTRIES, |_| 1),
            groups: VersionedCache::new(MAX_ENTRIES, |_| 1),
            settings: VersionedCache::new(1, |_| 1),
            gates: VersionedCache::new(MAX_ENTRIES, |_| 1),
            required_by_groups: VersionedCache::new(MAX_ENTRIES, |_| 1),
            revisions: VersionedCache::new(MAX_REVISIONS, |_| 1),
        }
    }
}
