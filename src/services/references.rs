//! Every change of a repository's references goes through [`moving`], whichever way it came.
//!
//! What is about to move is written down before, and settled after in one transaction with all that follows
//! from it: events with the outbox of webhooks, what becomes of merge requests, activity, the default branch of a repository that was empty, its
//! protection, upkeep. A server that is killed in between leaves the intent, and [`recover`] finishes what it
//! announced. Moving runs to its end even when the client goes away.

use std::future::Future;

use chrono::TimeDelta;
use git::RepositoryId;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use serde::{Deserialize, Serialize};
use storage::entities::ref_updates::{self, Kind, State};
use storage::entities::{AccessLevel, now, projects, protected_branches};
use storage::jobs;

use crate::error::{Error, Result};
use crate::jobs::maintain_repository::MaintainRepository;
use crate::jobs::read_messages::ReadMessages;
use crate::services::Backend;
use crate::services::events;
use crate::services::events::pushes::{News, Scene, of_moved};
use crate::services::merge_requests::{self, Consequences};

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
    moving_prepared(backend, mover, planned, async { Ok(()) }, |()| work).await
}

/// As [`moving`], with something to `prepare` that moves nothing yet: it is done while the intent is written down, and
/// `work` gets what it answers.
///
/// # Errors
/// Whatever `prepare` or `work` answers; nothing is recorded then.
pub async fn moving_prepared<P, T, F>(
    backend: &Backend,
    mover: Mover,
    planned: Vec<String>,
    prepare: impl Future<Output = Result<P>> + Send + 'static,
    work: impl FnOnce(P) -> F + Send + 'static,
) -> Result<T>
where
    P: Send + 'static,
    T: Send + 'static,
    F: Future<Output = Result<(T, Vec<Moved>)>> + Send,
{
    let backend = backend.clone();
    let task = backend.moves.clone().spawn(async move {
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

async fn intend(backend: &Backend, mover: &Mover, planned: &[String]) -> Result<i64> {
    // Where they stand now is what tells, after a kill, which of them moved.
    let standing = standing(backend, mover.project_id, planned.to_vec()).await?;
    let planned = planned.iter().cloned().zip(standing);
    let planned: Vec<Moved> = planned
        .map(|(reference, old)| Moved {
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
        state: Set(State::Pending),
        created_at: Set(now()),
        ..Default::default()
    };
    Ok(row.insert(backend.database.write()).await?.id)
}

/// The ids that references stand at; none where there is no such reference, or no repository.
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

/// Records what moved, with all that follows from it.
async fn settle(backend: &Backend, intent: i64, mover: &Mover, moved: &[Moved]) -> Result<()> {
    let project_id = mover.project_id;
    let project = projects::Entity::find_by_id(project_id)
        .one(backend.database.read())
        .await?;
    let (mut default_branch, mut news, mut consequences) = (None, News::default(), Consequences::default());
    if let Some(project) = &project {
        let repository = repository(backend, project_id);
        if project.default_branch.is_none() {
            default_branch = new_default_branch(&repository).await?;
        }
        let scene = Scene {
            project,
            default_branch: project.default_branch.as_deref().or(default_branch.as_deref()),
            author_id: mover.user_id,
            repository: &repository,
        };
        let db = backend.database.read();
        let found = merge_requests::of_moved(db, project_id, &repository, moved);
        let (events, found) = tokio::join!(of_moved(&scene, moved), found);
        (news, consequences) = (events, found?);
    }
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
            for event in news.events {
                events::write(transaction, event).await?;
            }
            if let (Some(user_id), false) = (mover.user_id, news.unread.is_empty()) {
                let job = ReadMessages {
                    project_id,
                    user_id,
                    unread: news.unread,
                };
                jobs::enqueue(transaction, &job).await.map_err(Error::internal)?;
            }
            merge_requests::apply(transaction, mover, &consequences).await?;
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

/// The default branch of a project that has none yet, once its repository is no longer empty. HEAD decides where
/// its branch exists; otherwise the usual names, then the first branch, and HEAD follows.
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
        let moved = happened(backend, &intent).await?;
        let mover = Mover {
            project_id: intent.project_id,
            user_id: intent.user_id,
            kind: intent.kind,
        };
        settle(backend, intent.id, &mover, &moved).await?;
    }
    Ok(count)
}

/// What of an intent that was never settled happened: where its references stand now, but for what others have
/// recorded since. Patterns stay as they are, for nobody knows what they stood for.
async fn happened(backend: &Backend, intent: &ref_updates::Model) -> Result<Vec<Moved>> {
    let planned: Vec<Moved> = serde_json::from_str(&intent.changes).unwrap_or_default();
    let names = planned.iter().map(|moved| moved.reference.clone()).collect();
    let standing = standing(backend, intent.project_id, names).await?;
    let since = intent.created_at - ABANDONED;
    let settled = ref_updates::settled(backend.database.read(), intent.project_id, since).await?;
    let settled: Vec<Moved> = settled
        .iter()
        .flat_map(|row| serde_json::from_str::<Vec<Moved>>(&row.changes).unwrap_or_default())
        .collect();
    let moved = planned.into_iter().zip(standing).filter_map(|(planned, new)| {
        if planned.reference.ends_with('*') {
            return Some(planned);
        }
        let old = followed(&planned, &settled);
        (old != new).then_some(Moved {
            reference: planned.reference,
            old,
            new,
        })
    });
    Ok(moved.collect())
}

/// Where the recorded moves have led a reference from where an intent saw it. Moves that lie before the intent lead
/// away from there only to lead back.
fn followed(planned: &Moved, settled: &[Moved]) -> Option<String> {
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

    fn moved(old: Option<&str>, new: Option<&str>) -> Moved {
        Moved {
            reference: "refs/heads/main".to_owned(),
            old: old.map(str::to_owned),
            new: new.map(str::to_owned),
        }
    }

    #[test]
    fn recorded_moves_are_followed_and_others_are_not() {
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
        let elsewhere = Moved {
            reference: "refs/heads/other".to_owned(),
            ..moved(Some("a"), Some("b"))
        };
        assert_eq!(followed(&planned, &[elsewhere]), Some("a".to_owned()));
        assert_eq!(followed(&planned, &[moved(Some("a"), None)]), None);
    }
}
