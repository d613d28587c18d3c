//! Work after merges and pushes, done by jobs. Every operation is idempotent.

use git::{LockedRepository, Oid, Repository};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::merge_requests::{self, Entity, MergeRequestState, Model};
use storage::entities::{closing_merge_requests, projects, users};
use storage::jobs::JobFailure;

use crate::code::branch_protection;
use crate::code::commits::commit;
use crate::code::push_decision::{ProposalKind, ProposedUpdate};
use crate::code::ref_updates::{UpdateAuthority, prepare_and_update_refs};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::RefChange;
use crate::planning::issues::{self, Closer};
use crate::review::jobs::post_merge::PostMerge;
use crate::review::jobs::update_head_ref::UpdateHeadRef;
use crate::review::merge_requests::closing_issues;
use crate::review::merge_requests::head_refs::{self, oid};
use crate::review::merge_requests::ref_updates::{apply_new_head, close_orphaned, commits_note};
use crate::review::merge_requests::versions::collection;

/// Updates the head ref of a merge request whose source changed, its merge base, its versions and the issues that
/// it closes.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
async fn refresh(backend: &Backend, id: i64) -> Result<()> {
    let db = backend.database.read();
    let Some(merge_request) = Entity::find_by_id(id).one(db).await? else {
        return Ok(());
    };
    let merge_request = with_current_head(backend, merge_request).await?;
    collection::complete(backend, merge_request).await?;
    closing_issues::refresh(backend, id).await
}

/// Returns a merge request with the current head of its source branch. A push, or the deletion of the branch, was not
/// recorded for the merge request if it came before the merge request was committed. This function applies the effects
/// of such a push or deletion.
async fn with_current_head(backend: &Backend, merge_request: Model) -> Result<Model> {
    let Some(source_id) = merge_request
        .source_project_id
        .filter(|_| merge_request.state == MergeRequestState::Opened)
    else {
        return Ok(merge_request);
    };
    let repository = head_refs::repository(backend, source_id);
    let head = match repository.branch(&merge_request.source_branch).await {
        Ok(branch) => Some(branch.commit),
        Err(git::Error::BranchNotFound) => None,
        Err(git::Error::InvalidReferenceName | git::Error::RepositoryMissing) => return Ok(merge_request),
        Err(error) => return Err(error.into()),
    };
    let new_head = match head {
        Some(head) if head.to_string() == merge_request.head_sha => return Ok(merge_request),
        Some(head) => Some((
            head.to_string(),
            new_commits_note(&repository, &merge_request, head).await?,
        )),
        None => None,
    };
    if new_head.is_none() && is_deleted(backend, source_id).await? {
        return Ok(merge_request);
    }
    backend
        .database
        .transaction(async |transaction| {
            let Some(before) = merge_requests::lock(transaction, merge_request.id).await? else {
                return Ok(merge_request);
            };
            // The effects of a later push were recorded meanwhile.
            if before.state != MergeRequestState::Opened || before.head_sha != merge_request.head_sha {
                return Ok(before);
            }
            match new_head {
                Some((head, note)) => apply_new_head(transaction, None, &before, &head, note).await,
                None => close_orphaned(transaction, None, &before).await,
            }
        })
        .await
}

/// Returns the note about the commits since the stored head, which may have been pruned.
async fn new_commits_note(repository: &Repository, merge_request: &Model, head: Oid) -> Result<String> {
    let former = oid(&merge_request.head_sha)?;
    let exists = !repository.existing_commits(vec![former]).await?.is_empty();
    let change = RefChange::branch(&merge_request.source_branch, exists.then_some(former), Some(head));
    commits_note(repository, &change, &head.to_string()).await
}

/// Returns whether a project is deleted, or its deletion has started. Its branches disappear with its repository.
async fn is_deleted(backend: &Backend, project_id: i64) -> Result<bool> {
    let project = projects::not_deleted().filter(projects::Column::Id.eq(project_id));
    Ok(project.one(backend.database.read()).await?.is_none())
}

/// Closes the issues of a merged merge request and deletes its source branch if requested, with the
/// permissions of the user who merged it.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
async fn finish(backend: &Backend, job: &PostMerge) -> Result<()> {
    let db = backend.database.read();
    let merge_request = Entity::find_by_id(job.merge_request_id).one(db).await?;
    let user = match job.user_id {
        Some(id) => users::Entity::find_by_id(id).one(db).await?,
        None => None,
    };
    let (Some(merge_request), Some(user)) = (merge_request, user) else {
        return Ok(());
    };
    let caller = Caller::user(user);
    // The merge may have changed the merge base.
    collection::collect(backend, &merge_request).await?;
    close_issues(backend, &caller, &merge_request).await?;
    match job.remove_source_branch {
        true => delete_source_branch(backend, caller, &merge_request).await,
        false => Ok(()),
    }
}

async fn close_issues(backend: &Backend, caller: &Caller, merge_request: &Model) -> Result<()> {
    let target = ProjectAccess::find_visible(backend, caller, merge_request.target_project_id).await?;
    let closes_issues = |target: &ProjectAccess| {
        target.project.autoclose_referenced_issues
            && target.project.default_branch.as_deref() == Some(&merge_request.target_branch)
    };
    let Some(target) = target.filter(closes_issues) else {
        return Ok(());
    };
    let db = backend.database.read();
    // An earlier attempt of the job has closed these. They may have been reopened since then.
    let closed = issues::closed_by_merge_request(db, merge_request.id).await?;
    let mut closing = closing_merge_requests::closed_by(db, merge_request.id).await?;
    closing.retain(|issue| !closed.contains(&issue.id));
    for issue in closing {
        let reference = |path: &str| format!("merge request {path}!{}", merge_request.iid);
        issues::close_by_reference(
            backend,
            &target,
            issue,
            Closer::MergeRequest(merge_request.id),
            reference,
        )
        .await?;
    }
    Ok(())
}

async fn delete_source_branch(backend: &Backend, caller: Caller, merge_request: &Model) -> Result<()> {
    let Some(source_id) = merge_request.source_project_id else {
        return Ok(());
    };
    let Some(source) = ProjectAccess::find_visible(backend, &caller, source_id).await? else {
        return Ok(());
    };
    let branch = merge_request.source_branch.clone();
    if !branch_protection::branch_rules(backend, &source)
        .await?
        .can_delete(&branch)
    {
        return Ok(());
    }
    let (repository, head) = (
        head_refs::repository(backend, source_id),
        oid(&merge_request.head_sha)?,
    );
    let update = ProposedUpdate::branch(&branch, ProposalKind::Delete);
    let authority = UpdateAuthority::caller(&source, update, Error::forbidden);
    let lock = async move { Ok(repository.lock().await?) };
    let publish = async move |locked: LockedRepository| {
        match locked.delete_branch(&branch, Some(head)).await {
            Ok(old) => Ok(((), vec![RefChange::branch(&branch, Some(old), None)])),
            // The branch was deleted or has received new commits. It is not deleted then.
            Err(git::Error::BranchNotFound | git::Error::StaleReference) => Ok(((), Vec::new())),
            Err(error) => Err(error.into()),
        }
    };
    let update = commit::ref_update(&source);
    match prepare_and_update_refs(backend, update, authority, lock, publish).await {
        // The user has lost the permission, so the branch stays.
        Err(Error::Unauthorized | Error::NotFound(_) | Error::Forbidden(_)) => Ok(()),
        removed => removed,
    }
}

/// Runs the job. Steps that are done already are skipped.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_post_merge(backend: Backend, job: PostMerge) -> Result<(), JobFailure> {
    Ok(finish(&backend, &job).await?)
}

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_update_head_ref(backend: Backend, job: UpdateHeadRef) -> Result<(), JobFailure> {
    Ok(refresh(&backend, job.merge_request_id).await?)
}
