//! Ref updates: every change of a repository's refs uses [`moving`].
//!
//! An intent is recorded first. After the update, one transaction records all effects: those of the listeners
//! of [`Backend`], activity and maintenance. For a formerly empty repository it also sets and protects the
//! default branch. If a server is killed in between, the intent remains and [`recover`] completes it. An
//! update runs to its end even if the client disconnects.

use std::future::Future;

use chrono::TimeDelta;
use futures_util::future::try_join_all;
use git::RepositoryId;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::entities::ref_updates::{self, RefUpdateState};
use storage::entities::{AccessLevel, now, projects, protected_branches};
use storage::jobs;

use crate::code::jobs::maintain_repository::MaintainRepository;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{RefChange, RefUpdate, UpdatedRefs};

/// Updates refs: `planned` lists the refs that may change, `work` changes them and returns the changed ones.
///
/// # Errors
/// Returns the error of `work`; nothing is recorded then.
pub async fn moving<T, F>(backend: &Backend, mover: RefUpdate, planned: Vec<String>, work: F) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<(T, Vec<RefChange>)>> + Send + 'static,
{
    moving_prepared(backend, mover, planned, async { Ok(()) }, |()| work).await
}

/// As [`moving`], with a `prepare` step that changes no refs. It runs while the intent is recorded, and
/// `work` gets its result.
///
/// # Errors
/// Returns the error of `prepare` or `work`; nothing is recorded then.
pub async fn moving_prepared<P, T, F>(
    backend: &Backend,
    mover: RefUpdate,
    planned: Vec<String>,
    prepare: impl Future<Output = Result<P>> + Send + 'static,
    work: impl FnOnce(P) -> F + Send + 'static,
) -> Result<T>
where
    P: Send + 'static,
    T: Send + 'static,
    F: Future<Output = Result<(T, Vec<RefChange>)>> + Send,
{
    let backend = backend.clone();
    let task = backend.ref_update_tasks.clone().spawn(async move {
        let (intent, prepared) = tokio::join!(intend(&backend, &mover, &planned), prepare);
        let intent = intent?;
        let done = match prepared {
            Ok(prepared) => work(prepared).await,
            Err(error) => Err(error),
        };
        match done {
            Ok((value, moved)) => {
                settle(&backend, intent, &mover, &moved).await?;
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

async fn intend(backend: &Backend, mover: &RefUpdate, planned: &[String]) -> Result<i64> {
    // The current targets show after a kill which refs were updated.
    let standing = standing(backend, mover.project_id, planned.to_vec()).await?;
    let planned = planned.iter().cloned().zip(standing);
    let planned: Vec<RefChange> = planned
        .map(|(reference, old)| RefChange {
            reference,
            old,
            new: None,
        })
        .collect();
    let row = ref_updates::ActiveModel {
        project_id: Set(mover.project_id),
        user_id: Set(mover.user_id),
        kind: Set(mover.kind),
        changes: Set(serde_json::to_string(&planned).map_err(Error::internal)?),
        state: Set(RefUpdateState::Pending),
        created_at: Set(now()),
        ..Default::default()
    };
    Ok(row.insert(backend.database.write()).await?.id)
}

/// Returns the targets of refs; `None` without such a ref or a repository.
async fn standing(
    backend: &Backend,
    project_id: i64,
    references: Vec<String>,
) -> Result<Vec<Option<String>>> {
    let count = references.len();
    match repository(backend, project_id).targets(references).await {
        Ok(targets) => Ok(targets
            .into_iter()
            .map(|id| id.map(|id| id.to_string()))
            .collect()),
        Err(git::Error::RepositoryMissing) => Ok(vec![None; count]),
        Err(error) => Err(error.into()),
    }
}

fn repository(backend: &Backend, project_id: i64) -> git::Repository {
    backend
        .repositories
        .repository(&RepositoryId::of_project(project_id))
}

/// Records the updates with all their effects.
async fn settle(backend: &Backend, intent: i64, mover: &RefUpdate, moved: &[RefChange]) -> Result<()> {
    let project_id = mover.project_id;
    let project = projects::Entity::find_by_id(project_id)
        .one(backend.database.read())
        .await?;
    let (mut default_branch, mut effects) = (None, Vec::new());
    if let Some(project) = &project {
        let repository = repository(backend, project_id);
        if project.default_branch.is_none() {
            default_branch = new_default_branch(&repository).await?;
        }
        let refs = UpdatedRefs {
            project,
            default_branch: project.default_branch.as_deref().or(default_branch.as_deref()),
            update: mover,
            changes: moved,
            repository: &repository,
        };
        let listeners = backend.ref_update_listeners.iter();
        effects = try_join_all(listeners.map(|listener| listener.plan(&backend.database, &refs))).await?;
    }
    let changes = serde_json::to_string(moved).map_err(Error::internal)?;
    backend
        .database
        .transaction(async |transaction| {
            let settled = ref_updates::Entity::update_many()
                .col_expr(ref_updates::Column::Changes, Expr::value(changes.clone()))
                .col_expr(ref_updates::Column::State, Expr::value(RefUpdateState::Applied))
                .filter(ref_updates::Column::Id.eq(intent))
                .filter(ref_updates::Column::State.eq(RefUpdateState::Pending));
            if settled.exec(transaction).await?.rows_affected == 0 || moved.is_empty() {
                return Ok(());
            }
            for effect in effects {
                effect.apply(transaction, mover).await?;
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
            let at = now();
            let row = protected_branches::ActiveModel {
                project_id: Set(project_id),
                name: Set(name.to_owned()),
                push_access_level: Set(AccessLevel::Maintainer.into()),
                merge_access_level: Set(AccessLevel::Maintainer.into()),
                created_at: Set(at),
                updated_at: Set(at),
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

/// Returns the default branch for a project without one, once its repository is not empty. The branch of HEAD
/// comes first, then the usual names, then the first branch. HEAD is updated to match.
async fn new_default_branch(repository: &git::Repository) -> Result<Option<String>> {
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
        .branches(None, git::PageWindow { offset: 0, limit: 1 })
        .await?;
    let Some(first) = first.branches.into_iter().next() else {
        return Ok(None);
    };
    repository.set_default_branch(&first.name).await?;
    Ok(Some(first.name))
}

/// Age at which an intent counts as abandoned; longer than any push.
const ABANDONED: TimeDelta = TimeDelta::hours(4);

/// Completes the intents of killed servers and returns their number. `all` is for a server that starts alone
/// on its database: then no pending intent can be in progress.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub async fn recover(backend: &Backend, all: bool) -> Result<usize> {
    let before = if all { now() } else { now() - ABANDONED };
    let pending = ref_updates::pending(backend.database.read(), before).await?;
    let count = pending.len();
    for intent in pending {
        let moved = happened(backend, &intent).await?;
        let mover = RefUpdate {
            project_id: intent.project_id,
            user_id: intent.user_id,
            kind: intent.kind,
        };
        settle(backend, intent.id, &mover, &moved).await?;
    }
    Ok(count)
}

/// Determines what an unsettled intent changed, by comparing its refs with the current ones, apart from
/// changes recorded since. Patterns are returned unchanged, because the refs they matched are unknown.
async fn happened(backend: &Backend, intent: &ref_updates::Model) -> Result<Vec<RefChange>> {
    let planned: Vec<RefChange> = serde_json::from_str(&intent.changes).unwrap_or_default();
    let names = planned.iter().map(|moved| moved.reference.clone()).collect();
    let standing = standing(backend, intent.project_id, names).await?;
    let since = intent.created_at - ABANDONED;
    let settled = ref_updates::applied(backend.database.read(), intent.project_id, since).await?;
    let settled: Vec<RefChange> = settled
        .iter()
        .flat_map(|row| serde_json::from_str::<Vec<RefChange>>(&row.changes).unwrap_or_default())
        .collect();
    let moved = planned.into_iter().zip(standing).filter_map(|(planned, new)| {
        if planned.reference.ends_with('*') {
            return Some(planned);
        }
        let old = followed(&planned, &settled);
        (old != new).then_some(RefChange {
            reference: planned.reference,
            old,
            new,
        })
    });
    Ok(moved.collect())
}

/// Follows recorded changes of a ref, starting at the target that the intent saw. Changes from before the
/// intent cancel out, because they lead back to that target.
fn followed(planned: &RefChange, settled: &[RefChange]) -> Option<String> {
    let mut at = planned.old.clone();
    for moved in settled
        .iter()
        .filter(|moved| moved.reference == planned.reference)
    {
        if moved.old == at {
            at.clone_from(&moved.new);
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(old: Option<&str>, new: Option<&str>) -> RefChange {
        RefChange {
            reference: "refs/heads/main".to_owned(),
            old: old.map(str::to_owned),
            new: new.map(str::to_owned),
        }
    }

    #[test]
    fn ref_update_follows_later_changes_of_same_ref_only() {
        let planned = moved(Some("a"), None);
        assert_eq!(followed(&planned, &[]), Some("a".to_owned()));
        let others = [moved(Some("a"), Some("b")), moved(Some("b"), Some("c"))];
        assert_eq!(followed(&planned, &others), Some("c".to_owned()));
        let before = [
            moved(Some("x"), Some("a")),
            moved(Some("a"), Some("y")),
            moved(Some("y"), Some("a")),
        ];
        assert_eq!(followed(&planned, &before), Some("a".to_owned()));
        let elsewhere = RefChange {
            reference: "refs/heads/other".to_owned(),
            ..moved(Some("a"), Some("b"))
        };
        assert_eq!(followed(&planned, &[elsewhere]), Some("a".to_owned()));
        assert_eq!(followed(&planned, &[moved(Some("a"), None)]), None);
    }
}
