//! Merges a merge request (`docs/adr/0020-merge-with-git-merge-tree.md`).

use git::{MergeMethod, MergeOptions, PreparedMerge, Repository, Signature, SquashCommit};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, IntoActiveModel,
    QueryFilter,
};
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::{merge_request_versions, now, projects};

use super::drafts::is_draft;
use super::row::{self, MergeRequestDetail};
use super::{approval_policy, find, head_pipeline, messages};
use crate::code::branch_protection;
use crate::code::commits::commit;
use crate::code::push_decision::{ProposalKind, ProposedUpdate};
use crate::code::push_events::between;
use crate::code::ref_updates::{UpdateAuthority, prepare_and_update_refs};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{RefChange, RefUpdate};
use crate::review::approvals::evaluation;
use crate::review::approvals::settings::ApprovalPolicy;
use crate::review::merge_requests::auto_merge;
use crate::review::merge_requests::head_refs::{self, oid};
use crate::review::merge_requests::ref_updates::{MergePlan, PlannedTarget};
use crate::review::status_checks::evaluation as checks;

/// Maximum number of attempts if concurrent pushes to the target win.
const MAX_ATTEMPTS: usize = 5;

/// Options of a merge; absent ones default to those of the merge request.
#[derive(Debug, Clone, Default)]
pub struct MergeParams {
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
    /// Whether to wait until the pipeline has succeeded, if it has not finished or the project requires a successful
    /// one, and until the status checks have passed, if the project requires them.
    pub merge_when_pipeline_succeeds: bool,
    /// The automatic merge that a job carries out. The merge is refused if the merge request has another target branch,
    /// or no longer waits for this automatic merge.
    pub waited_for: Option<WaitingMerge>,
}

/// An automatic merge as a job read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMerge {
    /// The target branch for which it was enabled.
    pub target_branch: String,
    /// The user who enabled it.
    pub user_id: i64,
}

impl WaitingMerge {
    /// Returns whether a merge request waits for this automatic merge. Another user can have enabled another one.
    fn is_of(&self, merge_request: &Model) -> bool {
        merge_request.merge_when_pipeline_succeeds && merge_request.merge_user_id == Some(self.user_id)
    }
}

/// Merges a merge request. On return it is merged and recorded. Closing its issues and deleting the source
/// branch follow in a job.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `Unauthorized` if the caller may not merge into the
/// target branch. Returns `NotAllowed` if it is not open, is a draft, lacks approvals, has status checks that have not
/// passed, or does not meet the other requirements of the project. Returns `NotAcceptable` if it has conflicts, has no
/// commits to merge, or needs a rebase. Returns `Conflict` if the head differs from the caller's, or if concurrent
/// pushes win repeatedly. An automatic merge returns `Contention` if concurrent pushes win, or if its pipeline or
/// status checks do not permit the merge any more.
pub async fn accept(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    params: MergeParams,
) -> Result<MergeRequestDetail> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let rules = branch_protection::branch_rules(backend, access).await?;
    if !rules.can_merge(&merge_request.target_branch) {
        return Err(Error::Unauthorized);
    }
    check_open(&merge_request)?;
    let pipeline = head_pipeline::find(db, &merge_request).await?;
    let has_succeeded = head_pipeline::allows_merge(&access.project, pipeline.as_ref());
    let is_ready = head_pipeline::is_ready(&access.project, pipeline.as_ref());
    let is_running = pipeline.is_some_and(|pipeline| !pipeline.status.is_finished());
    let is_required = access.project.only_allow_merge_if_pipeline_succeeds;
    let awaits_pipeline = !has_succeeded && (is_required || is_running);
    let have_checks_passed = checks::allow_merge(backend, db, &access.project, &merge_request).await?;
    let awaits_checks = !have_checks_passed && is_ready;
    let waits = params.merge_when_pipeline_succeeds && (awaits_pipeline || awaits_checks);
    let waits_longer = params.waited_for.is_some() && !is_ready;
    if waits_longer || (!have_checks_passed && !waits) {
        return Err(not_met(&params));
    }
    let mut policy = approval_policy::load(backend, access, &merge_request).await?;
    check_requirements(backend, access, &merge_request, &policy, waits || has_succeeded).await?;
    let head = params.sha.as_deref().map(str::trim).filter(|sha| !sha.is_empty());
    if head.is_some_and(|sha| !sha.eq_ignore_ascii_case(&merge_request.head_sha)) {
        return Err(head_mismatch(&merge_request));
    }
    let waited_for = params.waited_for.as_ref();
    if waited_for.is_some_and(|waiting| waiting.target_branch != merge_request.target_branch) {
        return Err(target_branch_changed());
    }
    if waits {
        return auto_merge::enable(backend, access, &merge_request, params).await;
    }
    let mut attempts = 1;
    loop {
        match merge(backend, access, &merge_request, &params, &policy).await {
            Err(MergeError::TargetChanged) if attempts < MAX_ATTEMPTS => {
                attempts += 1;
                // The new target can name other code owners.
                policy = approval_policy::load(backend, access, &merge_request).await?;
            }
            // A job tries again later.
            Err(MergeError::TargetChanged) if params.waited_for.is_some() => return Err(Error::Contention),
            Err(MergeError::TargetChanged) => return Err(Error::Conflict(commit::BRANCH_CHANGED.into())),
            Err(MergeError::Other(error)) => return Err(error),
            Ok(()) => break,
        }
    }
    let merged = find(backend.database.read(), access, iid).await?;
    row::load_written(backend, access, merged).await
}

/// The reason why a merge failed.
enum MergeError {
    /// The target changed concurrently.
    TargetChanged,
    /// Any error that a retry does not fix.
    Other(Error),
}

impl From<Error> for MergeError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

pub(super) fn not_allowed() -> Error {
    Error::NotAllowed(None)
}

/// Error for a pipeline or status check that does not permit the merge. A job that carries out an automatic merge tries
/// again, and finds that the merge request still waits.
fn not_met(params: &MergeParams) -> Error {
    match params.waited_for {
        Some(_) => Error::Contention,
        None => not_allowed(),
    }
}

/// Error for a caller who saw another head.
pub(crate) fn head_mismatch(merge_request: &Model) -> Error {
    let text = format!(
        "SHA does not match HEAD of source branch: {}",
        merge_request.head_sha
    );
    Error::Conflict(text.into())
}

/// Error for a merge request whose target branch is not the one that was checked.
pub(super) fn target_branch_changed() -> Error {
    Error::Conflict("The target branch has changed".into())
}

fn cannot_be_merged() -> Error {
    Error::NotAcceptable("Branch cannot be merged".into())
}

/// Rejects a merge request that is not open or is a draft.
pub(super) fn check_open(merge_request: &Model) -> Result<()> {
    match merge_request.state == MergeRequestState::Opened && !is_draft(&merge_request.title) {
        true => Ok(()),
        false => Err(not_allowed()),
    }
}

/// Checks the merge requirements of the project. `pipeline_ok` is true if the pipeline has succeeded or is
/// waited for.
async fn check_requirements(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: &Model,
    policy: &ApprovalPolicy,
    pipeline_ok: bool,
) -> Result<()> {
    let project = &access.project;
    if project.only_allow_merge_if_pipeline_succeeds && !pipeline_ok {
        return Err(not_allowed());
    }
    check_approved(backend, backend.database.read(), access, merge_request, policy).await?;
    if project.only_allow_merge_if_all_discussions_are_resolved
        && row::has_unresolved_discussions(backend.database.read(), merge_request).await?
    {
        return Err(not_allowed());
    }
    Ok(())
}

/// Returns the target project with its current settings.
pub(super) async fn current_target(
    db: &impl ConnectionTrait,
    merge_request: &Model,
) -> Result<projects::Model> {
    let target = projects::not_deleted().filter(projects::Column::Id.eq(merge_request.target_project_id));
    let target = target.one(db).await?;
    target.ok_or_else(|| Error::not_found("Project"))
}

/// Checks the requirements again that other requests may have changed since [`check_requirements`]: the settings of the
/// project, the pipeline, the discussions and the status checks. A change that is committed later does not affect the
/// merge.
async fn check_current_requirements(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    merge_request: &Model,
    params: &MergeParams,
) -> Result<()> {
    let target = current_target(transaction, merge_request).await?;
    if target.only_allow_merge_if_pipeline_succeeds || params.waited_for.is_some() {
        let pipeline = head_pipeline::find(transaction, merge_request).await?;
        if !head_pipeline::is_ready(&target, pipeline.as_ref()) {
            return Err(not_met(params));
        }
    }
    if target.only_allow_merge_if_all_discussions_are_resolved
        && row::has_unresolved_discussions(transaction, merge_request).await?
    {
        return Err(not_allowed());
    }
    match checks::allow_merge(backend, transaction, &target, merge_request).await? {
        true => Ok(()),
        false => Err(not_met(params)),
    }
}

/// Checks that a merge request has the approvals that its rules require.
async fn check_approved(
    backend: &Backend,
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    merge_request: &Model,
    policy: &ApprovalPolicy,
) -> Result<()> {
    if !evaluation::has_rules(backend) {
        return Ok(());
    }
    let state = evaluation::load(backend, db, access, merge_request, policy).await?;
    match state.is_approved() {
        true => Ok(()),
        false => Err(not_allowed()),
    }
}

/// Runs one attempt: stores the objects, records the plan, and publishes under the repository lock, which is
/// released after everything is recorded.
async fn merge(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: &Model,
    params: &MergeParams,
    policy: &ApprovalPolicy,
) -> Result<(), MergeError> {
    let (repository, _) = head_refs::ensure(backend, merge_request).await?;
    let options = merge_options(backend, access, &repository, merge_request, params).await?;
    let remove = params
        .should_remove_source_branch
        .or(merge_request.force_remove_source_branch)
        .unwrap_or(false);
    let (branch, merges) = (merge_request.target_branch.clone(), Some(merge_request.id));
    let update = ProposedUpdate::branch(&branch, ProposalKind::Merge);
    let authority = UpdateAuthority::caller(access, update, || Error::Unauthorized);
    let (backend_, merge_request, params) = (backend.clone(), merge_request.clone(), params.clone());
    let (access_, policy, repository_) = (access.clone(), policy.clone(), repository.clone());
    let prepare = async move { repository.prepare_merge(options).await.map_err(map_git_error) };
    let publish = async move |prepared: PreparedMerge| {
        let PreparedMerge {
            target,
            base,
            merge_commit,
            squash_commit,
        } = prepared;
        let (old, new) = (target.before(), target.after());
        if !approval_policy::applies_to(&policy, &repository_, old).await? {
            return Ok((Err(()), Vec::new()));
        }
        let base_and_start = (base.unwrap_or(old), old);
        let text = |id: git::Oid| id.to_string();
        let plan = MergePlan {
            head: merge_request.head_sha.clone(),
            tip: new.to_string(),
            merge_commit_sha: merge_commit.map(text),
            squash_commit_sha: squash_commit.map(text),
            remove_source_branch: remove,
            target: Some(PlannedTarget {
                branch: branch.clone(),
                base: text(base_and_start.0),
                start: text(base_and_start.1),
            }),
            approved: None,
        };
        let former_removal = save_plan(
            &backend_,
            &access_,
            (&merge_request, &policy),
            plan,
            base_and_start,
            &params,
        )
        .await?;
        match target.publish().await {
            // The lock is returned as well, and released when everything is recorded.
            Ok(guard) => Ok((Ok(guard), vec![RefChange::branch(&branch, Some(old), Some(new))])),
            Err(error) => {
                delete_plan(&backend_, &merge_request, &params, former_removal).await?;
                match error {
                    git::Error::StaleReference => Ok((Err(()), Vec::new())),
                    error => Err(error.into()),
                }
            }
        }
    };
    let mover = RefUpdate {
        merges,
        ..commit::ref_update(access)
    };
    match prepare_and_update_refs(backend, mover, authority, prepare, publish).await? {
        Ok(_guard) => Ok(()),
        Err(()) => Err(MergeError::TargetChanged),
    }
}

/// Determines the commits to merge and the method.
async fn merge_options(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &Repository,
    merge_request: &Model,
    params: &MergeParams,
) -> Result<MergeOptions> {
    let head = oid(&merge_request.head_sha)?;
    let user = access.caller.signed_in()?;
    let committer = Signature::new(&user.name, &user.email, now());
    let is_required = params.squash.unwrap_or(merge_request.squash);
    let squash = match access.project.squash_option.applies_to(is_required) {
        true => squash(backend, repository, merge_request, params, &committer).await?,
        false => None,
    };
    let message = params.merge_commit_message.clone();
    let message = match message.filter(|message| !message.trim().is_empty()) {
        Some(message) => message,
        None => messages::merge_commit_message(backend, access, merge_request).await?,
    };
    Ok(MergeOptions {
        branch: merge_request.target_branch.clone(),
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
    merge_request: &Model,
    params: &MergeParams,
    committer: &Signature,
) -> Result<Option<SquashCommit>> {
    let message = params.squash_commit_message.clone();
    let message = message.filter(|message| !message.trim().is_empty());
    if message.is_none() {
        let head = oid(&merge_request.head_sha)?;
        let target = repository
            .branch(&merge_request.target_branch)
            .await
            .map_err(map_git_error)?;
        if repository
            .count_commits(between(Some(target.commit), head), 2)
            .await?
            < 2
        {
            return Ok(None);
        }
    }
    Ok(Some(SquashCommit {
        message: message.unwrap_or_else(|| merge_request.title.clone()),
        author: messages::squash_author(backend, merge_request, committer).await?,
    }))
}

/// Records the plan of the merge, if nothing has changed since the permission check. Returns the former value of
/// `should_remove_source_branch`.
async fn save_plan(
    backend: &Backend,
    access: &ProjectAccess,
    (merge_request, policy): (&Model, &ApprovalPolicy),
    plan: MergePlan,
    (base, start): (git::Oid, git::Oid),
    params: &MergeParams,
) -> Result<Option<bool>> {
    backend
        .database
        .transaction(async |transaction| {
            let locked = merge_requests::lock(transaction, merge_request.id).await?;
            let locked = locked.ok_or_else(|| Error::not_found("MergeRequest"))?;
            check_open(&locked)?;
            if locked.head_sha != merge_request.head_sha
                || locked.target_branch != merge_request.target_branch
            {
                return Err(head_mismatch(&locked));
            }
            let waited_for = params.waited_for.as_ref();
            if waited_for.is_some_and(|waiting| !waiting.is_of(&locked)) {
                return Err(not_allowed());
            }
            // Approvals are given and revoked under the same lock.
            check_approved(backend, transaction, access, &locked, policy).await?;
            check_current_requirements(backend, transaction, &locked, params).await?;
            let plan = MergePlan {
                approved: auto_merge::approved_merge(&locked),
                ..plan
            };
            let former_removal = locked.should_remove_source_branch;
            let mut row = locked.into_active_model();
            row.merge_params = Set(Some(serde_json::to_string(&plan).map_err(Error::internal)?));
            row.base_sha = Set(base.to_string());
            row.start_sha = Set(start.to_string());
            if let Some(squash) = params.squash {
                row.squash = Set(squash);
            }
            if params.should_remove_source_branch.is_some() {
                row.should_remove_source_branch = Set(params.should_remove_source_branch);
            }
            let planned = row.update(transaction).await?;
            let commits = (planned.base_sha.as_str(), planned.start_sha.as_str());
            merge_request_versions::update_newest(transaction, planned.id, commits).await?;
            Ok(former_removal)
        })
        .await
}

/// Deletes the recorded plan of a failed merge, and restores `should_remove_source_branch`. An automatic merge still
/// waits.
async fn delete_plan(
    backend: &Backend,
    merge_request: &Model,
    params: &MergeParams,
    former_removal: Option<bool>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let Some(locked) = merge_requests::lock(transaction, merge_request.id).await? else {
                return Ok(());
            };
            let waiting = auto_merge::params_without_plan(&locked)?;
            let removal = params.should_remove_source_branch;
            let is_of_plan = removal.is_some() && locked.should_remove_source_branch == removal;
            let mut row = locked.into_active_model();
            row.merge_params = Set(waiting);
            if is_of_plan {
                row.should_remove_source_branch = Set(former_removal);
            }
            row.update(transaction).await?;
            Ok(())
        })
        .await
}

fn map_git_error(error: git::Error) -> Error {
    match error {
        git::Error::Conflict
        | git::Error::EmptyChange
        | git::Error::Diverged
        | git::Error::BranchNotFound => cannot_be_merged(),
        other => other.into(),
    }
}
