//! Every change of a repository's references goes through [`moving`], whichever way it came.
//!
//! What is about to move is written down before, and settled after in one transaction with all that follows
//! from it: activity, the default branch of a repository that was empty, its protection, upkeep. A server that
//! is killed in between leaves the intent, and [`recover`] finishes what it announced. Moving runs to its end
//! even when the client goes away.

use std::future::Future;

use chrono::TimeDelta;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use serde::{Deserialize, Serialize};

use crate::entities::ref_updates::{self, Kind, State};
use crate::entities::{AccessLevel, now, projects, protected_branches};
use crate::error::{Error, Result};
use crate::git::{self, RepositoryId};
use crate::jobs;
use crate::jobs::maintain_repository::MaintainRepository;
use crate::services::Backend;

/// A reference that moved; ids are 40 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The full name, such as `refs/heads/main`.
    pub reference: String,
    /// Where it stood; absent when it is new.
    pub old: Option<String>,
    /// Where it stands; absent when it was deleted.
    pub new: Option<String>,
}

impl Moved {
    /// A branch that moved.
    #[must_use]
    pub fn branch(name: &str, old: Option<git::Oid>, new: Option<git::Oid>) -> Self {
        let text = |id: git::Oid| id.to_string();
        Self {
            reference: format!("refs/heads/{name}"),
            old: old.map(text),
            new: new.map(text),
        }
    }

    /// A tag that moved.
    #[must_use]
    pub fn tag(name: &str, old: Option<git::Oid>, new: Option<git::Oid>) -> Self {
        Self {
            reference: format!("refs/tags/{name}"),
            ..Self::branch(name, old, new)
        }
    }
}

/// Who moves references, and of what.
#[derive(Debug, Clone)]
pub struct Mover {
    /// The project.
    pub project_id: i64,
    /// The user, when one is known.
    pub user_id: Option<i64>,
    /// Which way the change came.
    pub kind: Kind,
}

/// Moves references: `planned` names those that may move, `work` moves them and tells which did.
///
/// # Errors
/// Whatever `work` answers; nothing is recorded then.
pub async fn moving<T, F>(backend: &Backend, mover: Mover, planned: Vec<String>, work: F) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<(T, Vec<Moved>)>> + Send + 'static,
{
    let backend = backend.clone();
    let task = tokio::spawn(async move {
        let intent = intend(&backend, &mover, &planned).await?;
        match work.await {
            Ok((value, moved)) => {
                settle(&backend, intent, mover.project_id, &moved).await?;
                Ok(value)
            }
            Err(error) => {
                ref_updates::Entity::delete_by_id(intent)
                    .exec(backend.database.write())
                    .await?;
                Err(error)
            }
        }
    });
    task.await.map_err(Error::internal)?
}

async fn intend(backend: &Backend, mover: &Mover, planned: &[String]) -> Result<i64> {
    let row = ref_updates::ActiveModel {
        project_id: Set(mover.project_id),
        user_id: Set(mover.user_id),
        kind: Set(mover.kind),
        changes: Set(serde_json::to_string(planned).map_err(Error::internal)?),
        state: Set(State::Pending),
        created_at: Set(now()),
        ..Default::default()
    };
    Ok(row.insert(backend.database.write()).await?.id)
}

/// Records what moved, with all that follows from it.
async fn settle(backend: &Backend, intent: i64, project_id: i64, moved: &[Moved]) -> Result<()> {
    let default_branch = new_default_branch(backend, project_id).await?;
    let changes = serde_json::to_string(moved).map_err(Error::internal)?;
    backend
        .database
        .transaction(async |transaction| {
            let settled = ref_updates::Entity::update_many()
                .col_expr(ref_updates::Column::Changes, Expr::value(changes.clone()))
                .col_expr(ref_updates::Column::State, Expr::value(State::Applied))
                .filter(ref_updates::Column::Id.eq(intent))
                .filter(ref_updates::Column::State.eq(State::Pending));
            if settled.exec(transaction).await?.rows_affected == 0 || moved.is_empty() {
                return Ok(());
            }
            follow_up(transaction, project_id, default_branch.as_deref()).await
        })
        .await
}

async fn follow_up(
    transaction: &DatabaseTransaction,
    project_id: i64,
    default_branch: Option<&str>,
) -> Result<()> {
    let mut update = projects::Entity::update_many()
        .col_expr(projects::Column::LastActivityAt, Expr::value(now()))
        .filter(projects::Column::Id.eq(project_id));
    if let Some(name) = default_branch {
        update = update.col_expr(projects::Column::DefaultBranch, Expr::value(name));
        let known = protected_branches::of_project(transaction, project_id).await?;
        if !known.iter().any(|branch| branch.name == name) {
            let row = protected_branches::ActiveModel {
                project_id: Set(project_id),
                name: Set(name.to_owned()),
                push_access_level: Set(AccessLevel::Maintainer.into()),
                merge_access_level: Set(AccessLevel::Maintainer.into()),
                created_at: Set(now()),
                updated_at: Set(now()),
                ..Default::default()
            };
            row.insert(transaction).await?;
        }
    }
    update.exec(transaction).await?;
    jobs::enqueue(transaction, &MaintainRepository { project_id })
        .await
        .map_err(Error::internal)
}

/// The default branch of a project that has none yet and is no longer empty. HEAD decides where its branch
/// exists; otherwise the usual names, then the first branch, and HEAD follows.
async fn new_default_branch(backend: &Backend, project_id: i64) -> Result<Option<String>> {
    let project = projects::Entity::find_by_id(project_id)
        .one(backend.database.read())
        .await?;
    if project.is_none_or(|project| project.default_branch.is_some()) {
        return Ok(None);
    }
    let repository = backend
        .repositories
        .repository(&RepositoryId::of_project(project_id));
    if repository.is_empty().await? {
        return Ok(None);
    }
    let head = repository.default_branch().await?;
    for name in [head.as_str(), "main", "master"] {
        if repository.branch(name).await.is_ok() {
            repository.set_default_branch(name).await?;
            return Ok(Some(name.to_owned()));
        }
    }
    let first = repository
        .branches(None, git::Window { offset: 0, limit: 1 })
        .await?;
    let Some(first) = first.branches.into_iter().next() else {
        return Ok(None);
    };
    repository.set_default_branch(&first.name).await?;
    Ok(Some(first.name))
}

/// How old an intent must be before somebody else takes it for abandoned; longer than any push may take.
const ABANDONED: TimeDelta = TimeDelta::hours(4);

/// Finishes what killed servers announced. `all` is for a server that starts alone on its database: then
/// nothing that is pending can still be under way.
///
/// # Errors
/// Whatever the database or a repository reports.
pub async fn recover(backend: &Backend, all: bool) -> Result<usize> {
    let before = if all { now() } else { now() - ABANDONED };
    let pending = ref_updates::unsettled(backend.database.read(), before).await?;
    let count = pending.len();
    for intent in pending {
        let planned: Vec<String> = serde_json::from_str(&intent.changes).unwrap_or_default();
        let moved: Vec<Moved> = planned
            .into_iter()
            .map(|reference| Moved {
                reference,
                old: None,
                new: None,
            })
            .collect();
        settle(backend, intent.id, intent.project_id, &moved).await?;
    }
    Ok(count)
}
