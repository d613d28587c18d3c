//! What is remembered of the database, so that a request need not ask for what cannot have changed (ADR 17).
//!
//! Only answers that follow from the database alone belong here. The references of repositories do too: each of
//! their changes is announced and settled in the database before anybody is told of it (ADR 6).

use std::sync::Arc;

use git::Oid;
pub use storage::database::{Remembered, Version};
use storage::entities::{access_tokens, namespaces, projects, users};

use crate::policy::Role;
use crate::services::feature_gates::{Opening, Question};
use crate::services::settings::Settings;

/// Tokens, and projects and groups seen by a user: about two kilobytes each.
const FEW: u64 = 4_096;
/// Revisions that were resolved, about 200 bytes each.
const REVISIONS: u64 = 20_000;

/// What is remembered, by question.
pub struct Memory {
    /// Tokens with their users, by digest.
    pub(super) tokens: Remembered<String, (Arc<access_tokens::Model>, Arc<users::Model>)>,
    /// Projects with a user's role in them, by what names them.
    pub(super) projects: Remembered<(Option<i64>, String), Arc<SeenProject>>,
    /// Groups with a user's role in them, by what names them.
    pub(super) groups: Remembered<(Option<i64>, String), Arc<SeenGroup>>,
    /// The settings of the instance.
    pub(super) settings: Remembered<(), Settings>,
    /// How far feature gates are open, by who asks.
    pub(super) gates: Remembered<Question, Opening>,
    /// Commits by project and by what names them.
    pub(super) revisions: Remembered<(i64, String), Oid>,
}

/// A project as a user stands to it.
#[derive(Clone)]
pub(super) struct SeenProject {
    pub(super) project: projects::Model,
    pub(super) namespace: namespaces::Model,
    pub(super) role: Option<Role>,
}

/// A group as a user stands to it.
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
