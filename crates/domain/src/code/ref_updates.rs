//! Ref updates: every change of a repository's refs uses [`update_refs`].
//!
//! An intent is recorded first. A caller of the API is authorized again before the refs move. After the update, one
//! transaction records all effects: those of the listeners of [`Backend`], activity and maintenance. For a formerly
//! empty repository it also sets and protects the default branch. If a server is killed in between, the intent
//! remains and [`recover`] completes it. An update runs to its end even if the client disconnects.

use std::collections::HashSet;
use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join_all;
use git::{LockedRepository, NewObjects, Oid, PreparedCommit, PreparedMerge, PreparedMove, RepositoryId};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::entities::ref_updates::{self, RefUpdateState};
use storage::entities::{AccessLevel, now, projects, protected_branches};
use storage::jobs;

use crate::code::jobs::maintain_repository::MaintainRepository;
use crate::code::push_decision::{self, ProposalKind, ProposedUpdate, Verdict};
use crate::code::push_rules::CommitOrigin;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{RefChange, RefUpdate, UpdatedRefs};

/// First and maximum delay before a ref update is recorded that could not be recorded because of a fault.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The authority for a ref update, with the refs that may change.
pub enum UpdateAuthority {
    /// The caller of the API. Authorized again when the repository is locked, before the refs move.
    Caller(Box<CallerAuthority>),
    /// A push. Its hook waits for the decision.
    Push(Vec<String>),
    /// The server itself.
    Server(Vec<String>),
}

/// A caller of the API, and the updates that they request.
pub struct CallerAuthority {
    /// The access to the project.
    pub access: ProjectAccess,
    /// The updates.
    pub updates: Vec<ProposedUpdate>,
    /// Returns the error of the operation if an update is not allowed.
    pub refused: fn() -> Error,
}

impl UpdateAuthority {
    /// Returns the authority of a caller for one update.
    #[must_use]
    pub fn caller(access: &ProjectAccess, update: ProposedUpdate, refused: fn() -> Error) -> Self {
        Self::Caller(Box::new(CallerAuthority {
            access: access.clone(),
            updates: vec![update],
            refused,
        }))
    }

    fn planned(&self) -> Vec<String> {
        match self {
            Self::Caller(caller) => {
                let updates = caller.updates.iter();
                updates.map(|update| update.reference.clone()).collect()
            }
            Self::Push(planned) | Self::Server(planned) => planned.clone(),
        }
    }

    /// Checks the updates, which point refs to these targets, by the current state of the database.
    async fn check(&self, backend: &Backend, targets: &[Oid]) -> Result<()> {
        let Self::Caller(caller) = self else {
            return Ok(());
        };
        let origin = match caller
            .updates
            .iter()
            .any(|update| update.kind == ProposalKind::Merge)
        {
            true => CommitOrigin::Merge,
            false => CommitOrigin::Api,
        };
        let objects = (!targets.is_empty()).then(|| {
            let repository = repository_access::open(backend, &caller.access);
            (NewObjects::stored(repository, targets), origin)
        });
        let mut updates = caller.updates.clone();
        if let ([update], [target]) = (updates.as_mut_slice(), targets) {
            update.target = Some(*target);
        }
        let verdicts = push_decision::decide(backend, &caller.access, &updates, objects).await?;
        for verdict in verdicts {
            match verdict {
                Verdict::Accepted | Verdict::FastForwardOnly(_) => {}
                Verdict::Violation(text) => return Err(Error::Rejected(text.into())),
                Verdict::Rejected(_) | Verdict::Reserved => return Err((caller.refused)()),
            }
        }
        Ok(())
    }
}

/// The prepared part of a ref update: its objects are stored, and no ref has moved.
pub trait PreparedUpdate {
    /// Returns the targets to which refs will point. They can have commits that no ref leads to yet.
    fn targets(&self) -> Vec<Oid>;
}

impl PreparedUpdate for () {
    fn targets(&self) -> Vec<Oid> {
        Vec::new()
    }
}

impl PreparedUpdate for LockedRepository {
    fn targets(&self) -> Vec<Oid> {
        Vec::new()
    }
}

impl PreparedUpdate for PreparedCommit {
    fn targets(&self) -> Vec<Oid> {
        vec![self.id()]
    }
}

impl PreparedUpdate for PreparedMove {
    fn targets(&self) -> Vec<Oid> {
        vec![self.after()]
    }
}

impl PreparedUpdate for PreparedMerge {
    fn targets(&self) -> Vec<Oid> {
        self.target.targets()
    }
}

/// The update with a value that it needs.
impl<P: PreparedUpdate, T> PreparedUpdate for (P, T) {
    fn targets(&self) -> Vec<Oid> {
        self.0.targets()
    }
}

/// The update, or the reason why no ref moves.
impl<P: PreparedUpdate, E> PreparedUpdate for std::result::Result<P, E> {
    fn targets(&self) -> Vec<Oid> {
        self.as_ref().map(PreparedUpdate::targets).unwrap_or_default()
    }
}

/// Updates refs, which `work` does and returns.
///
/// # Errors
/// Returns the error of `work` or of the authority; nothing is recorded then.
pub async fn update_refs<T, F>(
    backend: &Backend,
    update: RefUpdate,
    authority: UpdateAuthority,
    work: F,
) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<(T, Vec<RefChange>)>> + Send + 'static,
{
    prepare_and_update_refs(backend, update, authority, async { Ok(()) }, |()| work).await
}

/// As [`update_refs`], with a `prepare` step that changes no refs. It runs while the intent is recorded, and `work`
/// gets its result. For a caller of the API, the result of `prepare` locks the repository, and `work` moves the refs at
/// once.
///
/// # Errors
/// Returns the error of `prepare`, `work` or of the authority; nothing is recorded then.
pub async fn prepare_and_update_refs<P, T, F>(
    backend: &Backend,
    update: RefUpdate,
    authority: UpdateAuthority,
    prepare: impl Future<Output = Result<P>> + Send + 'static,
    work: impl FnOnce(P) -> F + Send + 'static,
) -> Result<T>
where
    P: PreparedUpdate + Send + 'static,
    T: Send + 'static,
    F: Future<Output = Result<(T, Vec<RefChange>)>> + Send,
{
    let backend = backend.clone();
    let task = backend.ref_update_tasks.clone().spawn(async move {
        let planned = authority.planned();
        let created_at = now();
        let insertion = insert_intent(&backend, &update, &planned, created_at);
        let (intent, prepared) = tokio::join!(insertion, prepare);
        let intent = match intent {
            Ok(intent) => intent,
            Err(error) => {
                // If the connection to the database was lost, the row may have been inserted.
                if is_temporary(&error) {
                    finish_later(&backend, Unfinished::Insertion(update, created_at));
                }
                return Err(error);
            }
        };
        let result = async {
            let prepared = prepared?;
            authority.check(&backend, &prepared.targets()).await?;
            work(prepared).await
        };
        match result.await {
            Ok((value, changes)) => match complete(&backend, intent, &update, &changes).await {
                Ok(()) => Ok(value),
                Err(error) => {
                    if is_temporary(&error) {
                        finish_later(&backend, Unfinished::Update(intent, update, changes));
                    }
                    Err(error)
                }
            },
            Err(error) => {
                let deleted = ref_updates::Entity::delete_by_id(intent).exec(backend.database.write());
                if let Err(cause) = deleted.await {
                    // The first error has the cause.
                    tracing::warn!(%cause, intent, "failed to delete the intent of a failed ref update");
                    finish_later(&backend, Unfinished::Update(intent, update, Vec::new()));
                }
                Err(error)
            }
        }
    });
    task.await.map_err(Error::internal)?
}

/// Inserts the intent and returns its ID.
async fn insert_intent(
    backend: &Backend,
    update: &RefUpdate,
    planned: &[String],
    created_at: DateTime<Utc>,
) -> Result<i64> {
    // The current targets show after a kill which refs were updated.
    let targets = current_targets(backend, update.project_id, planned.to_vec()).await?;
    let planned = planned.iter().cloned().zip(targets);
    let planned: Vec<RefChange> = planned
        .map(|(reference, old)| RefChange {
            reference,
            old,
            new: None,
        })
        .collect();
    let row = ref_updates::ActiveModel {
        project_id: Set(update.project_id),
        user_id: Set(update.user_id),
        kind: Set(update.kind),
        changes: Set(serde_json::to_string(&planned).map_err(Error::internal)?),
        state: Set(RefUpdateState::Pending),
        created_at: Set(created_at),
        ..Default::default()
    };
    Ok(row.insert(backend.database.write()).await?.id)
}

/// Returns the targets of refs; `None` without such a ref or a repository.
async fn current_targets(
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
async fn complete(backend: &Backend, intent: i64, update: &RefUpdate, changes: &[RefChange]) -> Result<()> {
    let project_id = update.project_id;
    let project = projects::Entity::find_by_id(project_id)
        .one(backend.database.read())
        .await?;
    let (mut default_branch, mut effects) = (None, Vec::new());
    if let Some(project) = project.as_ref().filter(|_| !changes.is_empty()) {
        let repository = repository(backend, project_id);
        if project.default_branch.is_none() {
            default_branch = new_default_branch(&repository).await?;
        }
        let refs = UpdatedRefs {
            project,
            default_branch: project.default_branch.as_deref().or(default_branch.as_deref()),
            update,
            changes,
            repository: &repository,
        };
        let listeners = backend.ref_update_listeners.iter();
        effects = try_join_all(listeners.map(|listener| listener.plan(&backend.database, &refs))).await?;
    }
    let serialized = serde_json::to_string(changes).map_err(Error::internal)?;
    backend
        .database
        .transaction(async |transaction| {
            let applied = ref_updates::Entity::update_many()
                .col_expr(ref_updates::Column::Changes, Expr::value(serialized.clone()))
                .col_expr(ref_updates::Column::State, Expr::value(RefUpdateState::Applied))
                .filter(ref_updates::Column::Id.eq(intent))
                .filter(ref_updates::Column::State.eq(RefUpdateState::Pending));
            if applied.exec(transaction).await?.rows_affected == 0 || changes.is_empty() {
                return Ok(());
            }
            for effect in effects {
                effect.apply(transaction, update).await?;
            }
            update_project(transaction, project_id, default_branch.as_deref()).await
        })
        .await
}

/// Work on an intent that a fault of the database or of a disk interrupted.
enum Unfinished {
    /// Recording the changes of an intent. Without changes, nothing is recorded.
    Update(i64, RefUpdate, Vec<RefChange>),
    /// Inserting an intent, of an update that did not start.
    Insertion(RefUpdate, DateTime<Utc>),
}

impl Unfinished {
    async fn finish(&self, backend: &Backend) -> Result<()> {
        match self {
            Self::Update(intent, update, changes) => complete(backend, *intent, update, changes).await,
            Self::Insertion(update, created_at) => {
                let inserted = ref_updates::Entity::delete_many()
                    .filter(ref_updates::Column::ProjectId.eq(update.project_id))
                    .filter(ref_updates::Column::Kind.eq(update.kind))
                    .filter(ref_updates::Column::CreatedAt.eq(*created_at))
                    .filter(ref_updates::Column::State.eq(RefUpdateState::Pending));
                Ok(inserted.exec(backend.database.write()).await.map(drop)?)
            }
        }
    }
}

/// Finishes work on an intent in the background, when the fault ends. Without that, the recovery of ref updates would
/// finish the work hours later.
fn finish_later(backend: &Backend, work: Unfinished) {
    let later = backend.clone();
    backend.ref_update_tasks.spawn(async move {
        let mut delay = FIRST_DELAY;
        loop {
            tokio::time::sleep(delay).await;
            match work.finish(&later).await {
                Ok(()) => return tracing::info!("finished a ref update after a fault"),
                Err(error) if is_temporary(&error) => delay = (delay * 2).min(MAX_DELAY),
                Err(error) => return tracing::error!(%error, "failed to finish a ref update"),
            }
        }
    });
}

/// Returns whether an update can be recorded later: the database or a disk was not available, or busy.
fn is_temporary(error: &Error) -> bool {
    concerns_all_repositories(error) || matches!(error, Error::TimedOut | Error::StorageFailed)
}

/// Updates the project, protects a new default branch, and enqueues the maintenance of the repository.
async fn update_project(
    transaction: &DatabaseTransaction,
    project_id: i64,
    default_branch: Option<&str>,
) -> Result<()> {
    let mut project = projects::Entity::update_many()
        .col_expr(projects::Column::LastActivityAt, Expr::value(now()))
        .filter(projects::Column::Id.eq(project_id));
    if let Some(name) = default_branch {
        project = project.col_expr(projects::Column::DefaultBranch, Expr::value(name));
        let protected = protected_branches::named(project_id, name)
            .one(transaction)
            .await?;
        if protected.is_none() {
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
    project.exec(transaction).await?;
    jobs::enqueue(transaction, &MaintainRepository { project_id })
        .await
        .map_err(Error::internal)
}

/// Returns the default branch for a project without one, once its repository is not empty. HEAD is updated to match.
async fn new_default_branch(repository: &git::Repository) -> Result<Option<String>> {
    let branch = repository.preferred_branch().await?;
    if let Some(name) = &branch {
        repository.set_default_branch(name).await?;
    }
    Ok(branch)
}

/// Age at which an intent counts as abandoned; longer than any push, which may take three hours to arrive, and as long
/// again in Git.
pub const ABANDONED_AFTER: TimeDelta = TimeDelta::hours(7);

/// The intents that belong to killed servers.
#[derive(Debug, Clone, Copy)]
pub enum AbandonedUpdates {
    /// All pending intents, for a server that starts alone on its database: then none can be in progress. After the
    /// clock was set back, intents may be dated in the future.
    All,
    /// The intents that are too old at this time.
    OldAt(DateTime<Utc>),
}

/// Completes the intents of killed servers and returns their number. An intent that cannot be completed because of its
/// repository is logged, and remains: a damaged repository must not prevent the start of a server.
///
/// # Errors
/// Returns an error if the database or a disk is not available.
pub async fn recover(backend: &Backend, abandoned: AbandonedUpdates) -> Result<usize> {
    recover_repeatedly(backend, abandoned, &mut HashSet::new()).await
}

/// As [`recover`]. An intent whose ID is in `reported` is not logged as an error again; others are added. IDs of
/// intents that are no longer pending are removed.
///
/// # Errors
/// As [`recover`].
pub async fn recover_repeatedly(
    backend: &Backend,
    abandoned: AbandonedUpdates,
    reported: &mut HashSet<i64>,
) -> Result<usize> {
    let before = match abandoned {
        AbandonedUpdates::All => None,
        AbandonedUpdates::OldAt(time) => Some(time - ABANDONED_AFTER),
    };
    let pending = ref_updates::pending(backend.database.read(), before).await?;
    reported.retain(|id| pending.iter().any(|intent| intent.id == *id));
    let mut count = 0;
    for intent in pending {
        match recover_one(backend, &intent).await {
            Ok(()) => count += 1,
            Err(error) if concerns_all_repositories(&error) => return Err(error),
            Err(error) => {
                let project = intent.project_id;
                match reported.insert(intent.id) {
                    true => tracing::error!(project, %error, "failed to recover a ref update"),
                    false => tracing::debug!(project, %error, "failed to recover a ref update again"),
                }
            }
        }
    }
    Ok(count)
}

/// Returns whether the database or the whole disk was not available. Other temporary errors can concern one repository.
fn concerns_all_repositories(error: &Error) -> bool {
    error.is_of_database()
        || matches!(
            error,
            Error::StorageFull | Error::StorageReadOnly | Error::TooManyFiles
        )
}

async fn recover_one(backend: &Backend, intent: &ref_updates::Model) -> Result<()> {
    let id = RepositoryId::of_project(intent.project_id);
    let planned: Vec<RefChange> = serde_json::from_str(&intent.changes).unwrap_or_default();
    let changes = match backend.repositories.exists(&id).await? {
        true => observed_changes(backend, intent, planned).await?,
        // The server was killed before it created the repository, for example of a fork.
        false if planned.iter().all(|change| change.old.is_none()) => Vec::new(),
        // The disk with the repositories may be missing.
        false => return Err(git::Error::RepositoryMissing.into()),
    };
    let update = RefUpdate::new(intent.project_id, intent.user_id, intent.kind);
    complete(backend, intent.id, &update, &changes).await
}

/// Determines what a pending intent changed, by comparing its refs with the current ones, apart from
/// changes recorded since. Patterns are returned unchanged, because the refs they matched are unknown.
async fn observed_changes(
    backend: &Backend,
    intent: &ref_updates::Model,
    planned: Vec<RefChange>,
) -> Result<Vec<RefChange>> {
    let names = planned.iter().map(|change| change.reference.clone()).collect();
    let targets = current_targets(backend, intent.project_id, names).await?;
    let since = intent.created_at - ABANDONED_AFTER;
    let applied = ref_updates::applied(backend.database.read(), intent.project_id, since).await?;
    let applied: Vec<RefChange> = applied
        .iter()
        .flat_map(|row| serde_json::from_str::<Vec<RefChange>>(&row.changes).unwrap_or_default())
        .collect();
    let changes = planned.into_iter().zip(targets).filter_map(|(planned, new)| {
        if planned.reference.ends_with('*') {
            return Some(planned);
        }
        let old = target_after(&planned, &applied);
        (old != new).then_some(RefChange {
            reference: planned.reference,
            old,
            new,
        })
    });
    Ok(changes.collect())
}

/// Follows recorded changes of a ref, starting at the target that the intent saw. Changes from before the
/// intent cancel out, because they lead back to that target.
fn target_after(planned: &RefChange, applied: &[RefChange]) -> Option<String> {
    let mut target = planned.old.clone();
    for change in applied
        .iter()
        .filter(|change| change.reference == planned.reference)
    {
        if change.old == target {
            target.clone_from(&change.new);
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(old: Option<&str>, new: Option<&str>) -> RefChange {
        RefChange {
            reference: "refs/heads/main".to_owned(),
            old: old.map(str::to_owned),
            new: new.map(str::to_owned),
        }
    }

    #[test]
    fn ref_update_follows_later_changes_of_same_ref_only() {
        let planned = change(Some("a"), None);
        assert_eq!(target_after(&planned, &[]), Some("a".to_owned()));
        let later = [change(Some("a"), Some("b")), change(Some("b"), Some("c"))];
        assert_eq!(target_after(&planned, &later), Some("c".to_owned()));
        let before_intent = [
            change(Some("x"), Some("a")),
            change(Some("a"), Some("y")),
            change(Some("y"), Some("a")),
        ];
        assert_eq!(target_after(&planned, &before_intent), Some("a".to_owned()));
        let other_ref = RefChange {
            reference: "refs/heads/other".to_owned(),
            ..change(Some("a"), Some("b"))
        };
        assert_eq!(target_after(&planned, &[other_ref]), Some("a".to_owned()));
        assert_eq!(target_after(&planned, &[change(Some("a"), None)]), None);
    }
}
