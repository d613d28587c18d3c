//! Changes of refs, and the interface by which areas react to them.

use futures_util::future::BoxFuture;
use git::Repository;
use sea_orm::DatabaseTransaction;
use serde::{Deserialize, Serialize};
use storage::database::Database;
use storage::entities::projects;
use storage::entities::ref_updates::RefUpdateKind;

use crate::kernel::error::Result;

/// An updated ref; IDs have 40 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefChange {
    /// The full name, such as `refs/heads/main`.
    pub reference: String,
    /// The commit before; absent for a new ref.
    pub old: Option<String>,
    /// The commit after; absent for a deleted ref.
    pub new: Option<String>,
}

impl RefChange {
    /// Creates the change of a branch.
    #[must_use]
    pub fn branch(name: &str, old: Option<git::Oid>, new: Option<git::Oid>) -> Self {
        let text = |id: git::Oid| id.to_string();
        Self {
            reference: format!("refs/heads/{name}"),
            old: old.map(text),
            new: new.map(text),
        }
    }

    /// Creates the change of a tag.
    #[must_use]
    pub fn tag(name: &str, old: Option<git::Oid>, new: Option<git::Oid>) -> Self {
        Self {
            reference: format!("refs/tags/{name}"),
            ..Self::branch(name, old, new)
        }
    }
}

/// The project and origin of ref updates.
#[derive(Debug, Clone)]
pub struct RefUpdate {
    /// The project.
    pub project_id: i64,
    /// The user, if known.
    pub user_id: Option<i64>,
    /// The kind of the update.
    pub kind: RefUpdateKind,
    /// Attributes of the merge requests to create for the updated branches, if the pusher requests them.
    pub merge_request: Option<MergeRequestOptions>,
    /// ID of the merge request that the update merges. Not known after a recovery.
    pub merges: Option<i64>,
}

impl RefUpdate {
    /// Creates an update that requests no merge requests.
    #[must_use]
    pub fn new(project_id: i64, user_id: Option<i64>, kind: RefUpdateKind) -> Self {
        Self {
            project_id,
            user_id,
            kind,
            merge_request: None,
            merges: None,
        }
    }
}

/// Attributes of a merge request that a push creates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRequestOptions {
    /// The target branch; the default branch by default.
    pub target: Option<String>,
    /// The title; by default that of the newest commit.
    pub title: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// Whether it is a draft.
    pub draft: bool,
    /// Titles of the labels.
    pub labels: Vec<String>,
    /// Whether to squash the commits; by default that of the project.
    pub squash: Option<bool>,
    /// Whether to delete the source branch after the merge.
    pub remove_source_branch: Option<bool>,
}

/// Refs that were updated together, before their effects are recorded.
pub struct UpdatedRefs<'a> {
    /// The project.
    pub project: &'a projects::Model,
    /// The default branch, which the update may have created.
    pub default_branch: Option<&'a str>,
    /// The project and origin of the update.
    pub update: &'a RefUpdate,
    /// The changed refs.
    pub changes: &'a [RefChange],
    /// The repository after the update.
    pub repository: &'a Repository,
}

/// An area that reacts to ref updates.
pub trait RefUpdateListener: Send + Sync {
    /// Determines the effects of an update. Runs before the transaction that records the update, and at the
    /// same time as the other listeners.
    ///
    /// # Errors
    /// Returns an error if a database query or a Git operation fails; nothing is recorded then.
    fn plan<'a>(
        &'a self,
        database: &'a Database,
        refs: &'a UpdatedRefs<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn PlannedEffect>>>;
}

/// The effects of a ref update on one area.
pub trait PlannedEffect: Send {
    /// Records the effects in the transaction that records the update.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    fn apply<'a>(
        self: Box<Self>,
        transaction: &'a DatabaseTransaction,
        update: &'a RefUpdate,
    ) -> BoxFuture<'a, Result<()>>;
}
