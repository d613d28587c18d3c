//! Merges a merge request (`docs/adr/0020-merge-with-git-merge-tree.md`).

use git::{MergeMethod, MergeOptions, PreparedMerge, Repository, Signature, SquashCommit};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::projects;

use super::drafts::is_draft;
use super::row::{self, Row, Wanted};
use super::{find, head_pipeline, messages};
use crate::code::branch_protection;
use crate::code::commits::commit;
use crate::code::push_events::between;
use crate::code::ref_updates::prepare_and_update_refs;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::RefChange;
use crate::review::merge_requests::auto_merge;
use crate::review::merge_requests::head_refs::{self, oid};
use crate::review::merge_requests::ref_updates::Plan;

/// Maximum number of attempts if concurrent pushes to the target win.
const ATTEMPTS: usize = 5;

/// Options of a merge; absent ones default to those of the merge request.
#[derive(Debug, Clone, Default)]
pub struct Acceptance {
    /// The head that the caller saw. A different head is not merged.
    pub sha: Option<String>,
    /// Whether to squash the commits.
    pub squash: Option<bool>,
    /// The message of the merge commit.
    pub merge_commit_message: Option<String>,
    /// The message of the squash commit.
    pub squash_commit_message: Option<String>,
    /// Whether to delete the source branch after the merge.
    pub should_remove_source_branch: Option<bool>,
    /// Whether to wait for a successful pipeline, if the project requires one.
    pub merge_when_pipeline_succeeds: bool,
}

/// Merges a merge request. On return it is merged and recorded. Closing its issues and deleting the source
/// branch follow in a job.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `Unauthorized` if the caller may not merge
/// into the target branch. Returns `NotAllowed` if it is not open, is a draft, or does not meet the
/// requirements of the project. Returns `NotAcceptable` if it has conflicts, has no commits to merge, or
/// needs a rebase. Returns `Conflict` if the head differs from the caller's, or if concurrent pushes win
/// repeatedly.
pub async fn accept(backend: &Backend, access: &ProjectAccess, iid: i64, wanted: Acceptance) -> Result<Row> {
    let db = backend.database.read();
    let found = find(db, access, iid).await?;
    let rules = branch_protection::branch_rules(backend, access).await?;
    if !rules.can_merge(&found.target_branch) {
        return Err(Error::Unauthorized);
    }
    check_open(&found)?;
    let pipeline = head_pipeline::of(db, &found).await?;
    let succeeded = head_pipeline::lets_merge(&access.project, pipeline.as_ref());
    let runs = pipeline.is_some_and(|pipeline| !pipeline.status.is_finished());
    let asked = access.project.only_allow_merge_if_pipeline_succeeds;
    let waits = wanted.merge_when_pipeline_succeeds && !succeeded && (asked || runs);
    check_project(backend, &access.project, &found, waits || succeeded).await?;
    let head = wanted.sha.as_deref().map(str::trim).filter(|sha| !sha.is_empty());
    if head.is_some_and(|sha| !sha.eq_ignore_ascii_case(&found.head_sha)) {
        return Err(another_head(&found));
    }
    if waits {
        return auto_merge::wait(backend, access, &found, wanted).await;
    }
    let mut attempts = 1;
    loop {
        match merge(backend, access, &found, &wanted).await {
            Err(Failure::Overtaken) if attempts < ATTEMPTS => attempts += 1,
            Err(Failure::Overtaken) => return Err(Error::Conflict(commit::BRANCH_CHANGED.into())),
            Err(Failure::Other(error)) => return Err(error),
            Ok(()) => break,
        }
    }
    let merged = find(backend.database.read(), access, iid).await?;
    row::of_one(backend, access, merged, Wanted::default()).await
}

/// The reason why a merge failed.
enum Failure {
    /// The target changed concurrently.
    Overtaken,
    /// Any error that a retry does not fix.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

pub(super) fn not_allowed() -> Error {
    Error::NotAllowed(None)
}

/// Error for a caller who saw another head.
pub(super) fn another_head(merge_request: &Model) -> Error {
    let text = format!(
        "SHA does not match HEAD of source branch: {}",
        merge_request.head_sha
    );
    Error::Conflict(text.into())
}

fn cannot_be_merged() -> Error {
    Error::NotAcceptable("Branch cannot be merged".into())
}

/// Refuses a merge request that is not open or is a draft.
pub(super) fn check_open(merge_request: &Model) -> Result<()> {
    match merge_request.state == MergeRequestState::Opened && !is_draft(&merge_request.title) {
        true => Ok(()),
        false => Err(not_allowed()),
    }
}

/// Checks the merge requirements of the project; `piped` means that the pipeline has succeeded or is waited
/// for.
async fn check_project(
    backend: &Backend,
    project: &projects::Model,
    merge_request: &Model,
    piped: bool,
) -> Result<()> {
    if project.only_allow_merge_if_pipeline_succeeds && !piped {
        return Err(not_allowed());
    }
    if project.only_allow_merge_if_all_discussions_are_resolved {
        let one = std::slice::from_ref(merge_request);
        if !row::unresolved(backend.database.read(), one).await?.is_empty() {
            return Err(not_allowed());
        }
    }
    Ok(())
}

/// Runs one attempt: stores the objects, records the plan, and publishes under the repository lock, which is
/// released after everything is recorded.
async fn merge(
    backend: &Backend,
    access: &ProjectAccess,
    found: &Model,
    wanted: &Acceptance,
) -> Result<(), Failure> {
    let (repository, _) = head_refs::ready(backend, found).await?;
    let merge = plan(backend, access, &repository, found, wanted).await?;
    let remove = wanted
        .should_remove_source_branch
        .or(found.force_remove_source_branch)
        .unwrap_or(false);
    let branch = found.target_branch.clone();
    let planned = vec![format!("refs/heads/{branch}")];
    let (backend_, found, squash) = (backend.clone(), found.clone(), wanted.squash);
    let removal = wanted.should_remove_source_branch;
    let prepare = async move { repository.prepare_merge(merge).await.map_err(refusal) };
    let publish = async move |prepared: PreparedMerge| {
        let PreparedMerge {
            target,
            base,
            merge_commit,
            squash_commit,
        } = prepared;
        let (old, new) = (target.before(), target.after());
        let ends = (base.unwrap_or(old), old);
        let text = |id: git::Oid| id.to_string();
        let plan = Plan {
            head: found.head_sha.clone(),
            tip: new.to_string(),
            merge_commit_sha: merge_commit.map(text),
            squash_commit_sha: squash_commit.map(text),
            remove_source_branch: remove,
        };
        write_down(&backend_, &found, &plan, ends, (squash, removal)).await?;
        match target.publish().await {
            // The lock is returned as well, and released when everything is recorded.
            Ok(guard) => Ok((Ok(guard), vec![RefChange::branch(&branch, Some(old), Some(new))])),
            Err(error) => {
                forget(&backend_, &found).await?;
                match error {
                    git::Error::StaleReference => Ok((Err(()), Vec::new())),
                    error => Err(error.into()),
                }
            }
        }
    };
    let mover = commit::ref_update(access);
    match prepare_and_update_refs(backend, mover, planned, prepare, publish).await? {
        Ok(_guard) => Ok(()),
        Err(()) => Err(Failure::Overtaken),
    }
}

/// Determines the commits to merge and the method.
async fn plan(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &Repository,
    found: &Model,
    wanted: &Acceptance,
) -> Result<MergeOptions> {
    let head = oid(&found.head_sha)?;
    let user = access.caller.signed_in()?;
    let committer = Signature::now(&user.name, &user.email);
    let squash = match wanted.squash.unwrap_or(found.squash) {
        true => squash(backend, repository, found, wanted, &committer).await?,
        false => None,
    };
    let given = wanted.merge_commit_message.clone();
    let message = match given.filter(|message| !message.trim().is_empty()) {
        Some(message) => message,
        None => messages::of_merge(backend, access, found).await?,
    };
    Ok(MergeOptions {
        branch: found.target_branch.clone(),
        head,
        method: match access.project.merge_method {
            projects::MergeMethod::Merge => MergeMethod::Merge,
            projects::MergeMethod::RebaseMerge => MergeMethod::RebaseMerge,
            projects::MergeMethod::Ff => MergeMethod::FastForward,
        },
        message,
        squash,
        committer,
    })
}

/// Creates the squash commit; `None` if there is only one commit and no new message.
async fn squash(
    backend: &Backend,
    repository: &Repository,
    found: &Model,
    wanted: &Acceptance,
    committer: &Signature,
) -> Result<Option<SquashCommit>> {
    let given = wanted.squash_commit_message.clone();
    let given = given.filter(|message| !message.trim().is_empty());
    if given.is_none() {
        let head = oid(&found.head_sha)?;
        let target = repository.branch(&found.target_branch).await?.commit;
        if repository.count_commits(between(Some(target), head), 2).await? < 2 {
            return Ok(None);
        }
    }
    Ok(Some(SquashCommit {
        message: given.unwrap_or_else(|| found.title.clone()),
        author: messages::author(backend, found, committer).await?,
    }))
}

/// Records the plan of the merge, if nothing has changed since the permission check.
async fn write_down(
    backend: &Backend,
    found: &Model,
    plan: &Plan,
    (base, start): (git::Oid, git::Oid),
    (squash, removal): (Option<bool>, Option<bool>),
) -> Result<()> {
    let params = serde_json::to_string(plan).map_err(Error::internal)?;
    backend
        .database
        .transaction(async |transaction| {
            let locked = merge_requests::lock(transaction, found.id).await?;
            let locked = locked.ok_or_else(|| Error::not_found("MergeRequest"))?;
            check_open(&locked)?;
            if locked.head_sha != found.head_sha || locked.target_branch != found.target_branch {
                return Err(another_head(&locked));
            }
            let mut row = locked.into_active_model();
            row.merge_params = Set(Some(params.clone()));
            row.base_sha = Set(base.to_string());
            row.start_sha = Set(start.to_string());
            if let Some(squash) = squash {
                row.squash = Set(squash);
            }
            if removal.is_some() {
                row.should_remove_source_branch = Set(removal);
            }
            row.update(transaction).await?;
            Ok(())
        })
        .await
}

/// Deletes the recorded plan of a failed merge.
async fn forget(backend: &Backend, found: &Model) -> Result<()> {
    let row = merge_requests::ActiveModel {
        id: Set(found.id),
        merge_params: Set(None),
        ..Default::default()
    };
    row.update(backend.database.write()).await?;
    Ok(())
}

fn refusal(error: git::Error) -> Error {
    match error {
        git::Error::Conflict
        | git::Error::EmptyChange
        | git::Error::Diverged
        | git::Error::BranchNotFound => cannot_be_merged(),
        other => other.into(),
    }
}
