//! Caches of database results that cannot have changed since they were read (ADR 17).
//!
//! Only results that depend on the database alone belong here. Refs of repositories qualify: each change of
//! them is recorded in the database before any client learns of it (ADR 6).

use std::sync::Arc;

use git::Oid;
pub use storage::database::{Remembered, Version};
use storage::entities::{access_tokens, namespaces, projects, users};

use crate::policy::Role;
use crate::services::feature_gates::{Opening, Question};
use crate::services::settings::Settings;

/// Capacity for tokens, and for projects and groups per user: about two kilobytes each.
const FEW: u64 = 4_096;
/// Capacity for resolved revisions, about 200 bytes each.
const REVISIONS: u64 = 20_000;

/// The caches.
pub struct Memory {
    /// Tokens with their users, by digest.
    pub(super) tokens: Remembered<String, (Arc<access_tokens::Model>, Arc<users::Model>)>,
    /// Projects with a user's role, by user and reference.
    pub(super) projects: Remembered<(Option<i64>, String), Arc<SeenProject>>,
    /// Groups with a user's role, by user and reference.
    pub(super) groups: Remembered<(Option<i64>, String), Arc<SeenGroup>>,
    /// Settings of the instance.
    pub(super) settings: Remembered<(), Settings>,
    /// State of feature gates, by query.
    pub(super) gates: Remembered<Question, Opening>,
    /// Commits by project and revision.
    pub(super) revisions: Remembered<(i64, String), Oid>,
}

/// A project with the permissions of a user.
#[derive(Clone)]
pub(super) struct SeenProject {
    pub(super) project: projects::Model,
    pub(super) namespace: namespaces::Model,
    pub(super) role: Option<Role>,
}

/// A group with the permissions of a user.
#[derive(Clone)]
pub(super) struct SeenGroup {
    pub(super) group: namespaces::Model,
    pub(super) role: Option<Role>,
    pub(super) above: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            tokens: Remembered::new(FEW, |_| 1),
            projects: Remembered::new(FEW, |_| 1),
            groups: Remembered::new(FEW, |_| 1),
            settings: Remembered::new(1, |_| 1),
            gates: Remembered::new(FEW, |_| 1),
            revisions: Remembered::new(REVISIONS, |_| 1),
        }
    }
}
