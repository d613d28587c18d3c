//! Caches of database results that cannot have changed since they were read (ADR 50).
//!
//! Only results that depend on the database alone belong here. Refs of repositories qualify: each change of
//! them is recorded in the database before any client learns of it (ADR 6). [`ChangeOwnerCache`] depends on commits alone.

mod change_owners;

use std::sync::Arc;

pub use change_owners::{ChangeOwnerCache, ChangeOwners, ComparedCommits};
use chrono::NaiveDate;
use git::Oid;
pub use storage::database::{DataVersion, VersionedCache};
use storage::entities::group_approval_settings::PermittedApprovals;
use storage::entities::{access_tokens, namespaces, projects, row_bytes, users};

use crate::kernel::policy::Role;
use crate::kernel::settings::InstanceSettings;

/// Number of parts of the memory for the caches. Projects, groups and tokens are the largest rows.
const PARTS: u64 = 18;
/// More than the memory of the settings of the instance.
const SETTINGS_BYTES: u64 = 1 << 20;

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
    /// Approvals that groups permit, by namespace.
    pub(crate) permitted_approvals: VersionedCache<i64, PermittedApprovals>,
    /// Commits by project and revision.
    pub(crate) revisions: VersionedCache<(i64, String), Oid>,
    /// Code owners of changes, by commits.
    pub(crate) change_owners: ChangeOwnerCache,
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

impl Caches {
    /// Creates empty caches that use at most about `bytes` of memory together, in addition to the one entry for the
    /// settings of the instance.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let part = bytes / PARTS;
        Self {
            tokens: VersionedCache::new(4 * part, |digest: &String, (_, (token, user))| {
                digest.len() + row_bytes(token.as_ref()) + row_bytes(user.as_ref())
            }),
            projects: VersionedCache::new(6 * part, |(_, reference): &(_, String), (_, cached)| {
                reference.len() + row_bytes(&cached.project) + row_bytes(&cached.namespace)
            }),
            groups: VersionedCache::new(2 * part, |(_, reference): &(_, String), (_, cached)| {
                reference.len() + row_bytes(&cached.group)
            }),
            settings: VersionedCache::new(SETTINGS_BYTES, |(), _| 0),
            gates: VersionedCache::new(part, |(gate, ..): &GateQuery, _| gate.len()),
            required_by_groups: VersionedCache::new(part, |_, _| 0),
            permitted_approvals: VersionedCache::new(part, |_, _| 0),
            revisions: VersionedCache::new(2 * part, |(_, revision): &(i64, String), _| revision.len()),
            change_owners: ChangeOwnerCache::new(part),
        }
    }
}
