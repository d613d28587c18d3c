//! Work after merges and pushes, done by jobs. Every operation is idempotent.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::merge_requests::{Column, Entity, MergeRequestState, MergeStatus, Model};
use storage::entities::{closing_merge_requests, users};
use storage::jobs::JobFailure;

use crate::code::branch_protection;
use crate::code::commits::commit;
use crate::code::ref_updates::update_refs;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::RefChange;
use crate::planning::issues::{self, Closer};
use crate::review::jobs::finish_merge::FinishMerge;
use crate::review::jobs::keep_merge_request::KeepMergeRequest;
use crate::review::merge_requests::branch_heads::{self, BranchOf};
use crate::review::merge_requests::closing_issues;
use crate::review::merge_requests::head_refs::{self, oid};

/// Updates the head ref of a merge request whose source changed, its merge base and the issues that it
/// closes.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub async fn refresh(backend: &Backend, id: i64) -> Result<()> {
    let db = backend.database.read();
    let Some(found) = Entity::find_by_id(id).one(db).await? else {
        return Ok(());
    };
    let found = up_to_date(backend, found).await?;
    match head_refs::keep(backend, &found).await {
        // Both the branch and its commits are gone, so there is no head to store.
        Err(Error::NotFound(_)) => return Ok(()),
        kept => kept?,
    }
    let Some(start) = branch_heads::tip(backend, BranchOf::target(&found)).await? else {
        return Ok(());
    };
    let repository = head_refs::repository(backend, found.target_project_id);
    let base = repository.merge_base(vec![start, oid(&found.head_sha)?]).await?;
    let base = base.unwrap_or(start).to_string();
    Entity::update_many()
        .col_expr(Column::BaseSha, Expr::value(base))
        .col_expr(Column::StartSha, Expr::value(start.to_string()))
        .filter(Column::Id.eq(id))
        .filter(Column::HeadSha.eq(found.head_sha.as_str()))
        .filter(Column::State.eq(MergeRequestState::Opened))
        .exec(backend.database.write())
        .await?;
    closing_issues::renew(backend, id).await
}

/// Returns an open merge request with the current head of its source branch.
async fn up_to_date(backend: &Backend, mut found: Model) -> Result<Model> {
    let Some(source_id) = found
        .source_project_id
        .filter(|_| found.state == MergeRequestState::Opened)
    else {
        return Ok(found);
    };
    let tip = branch_heads::tip(backend, BranchOf::source(&found, source_id)).await?;
    let tip = tip.map(|tip| tip.to_string());
    let Some(tip) = tip.filter(|tip| *tip != found.head_sha) else {
        return Ok(found);
    };
    let moved = Entity::update_many()
        .col_expr(Column::HeadSha, Expr::value(tip.as_str()))
        .col_expr(Column::MergeStatus, Expr::value(MergeStatus::Unchecked))
        .filter(Column::Id.eq(found.id))
        .filter(Column::HeadSha.eq(found.head_sha.as_str()))
        .filter(Column::State.eq(MergeRequestState::Opened));
    if moved.exec(backend.database.write()).await?.rows_affected == 1 {
        found.head_sha = tip;
    }
    Ok(found)
}

/// Closes the issues of a merged merge request and deletes its source branch if requested, with the
/// permissions of the user who merged it.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub async fn finish(backend: &Backend, job: &FinishMerge) -> Result<()> {
    let db = backend.database.read();
    let found = Entity::find_by_id(job.merge_request_id).one(db).await?;
    let user = match job.user_id {
        Some(id) => users::Entity::find_by_id(id).one(db).await?,
        None => None,
    };
    let (Some(found), Some(user)) = (found, user) else {
        return Ok(());
    };
    let caller = Caller::user(user);
    close_issues(backend, &caller, &found).await?;
    match job.remove_source_branch {
        true => remove_source(backend, caller, &found).await,
        false => Ok(()),
    }
}

async fn close_issues(backend: &Backend, caller: &Caller, found: &Model) -> Result<()> {
    let target = ProjectAccess::find_visible(backend, caller, found.target_project_id).await?;
    let closes = |target: &ProjectAccess| {
        target.project.autoclose_referenced_issues
            && target.project.default_branch.as_deref() == Some(&found.target_branch)
    };
    let Some(target) = target.filter(closes) else {
        return Ok(());
    };
    for issue in closing_merge_requests::closed_by(backend.database.read(), found.id).await? {
        let named = |path: &str| format!("merge request {path}!{}", found.iid);
        issues::close_from(backend, &target, &issue, Closer::MergeRequest(found.id), named).await?;
    }
    Ok(())
}

async fn remove_source(backend: &Backend, caller: Caller, found: &Model) -> Result<()> {
    let Some(source_id) = found.source_project_id else {
        return Ok(());
    };
    let Some(source) = ProjectAccess::find_visible(backend, &caller, source_id).await? else {
        return Ok(());
    };
    let branch = found.source_branch.clone();
    if !branch_protection::branch_rules(backend, &source)
        .await?
        .can_delete(&branch)
    {
        return Ok(());
    }
    let (repository, head) = (head_refs::repository(backend, source_id), oid(&found.head_sha)?);
    let planned = vec![format!("refs/heads/{branch}")];
    let removed = update_refs(backend, commit::ref_update(&source), planned, async move {
        match repository.delete_branch(&branch, Some(head)).await {
            Ok(old) => Ok(((), vec![RefChange::branch(&branch, Some(old), None)])),
            // The branch was deleted or has received new commits. It is not deleted then.
            Err(git::Error::BranchNotFound | git::Error::StaleReference) => Ok(((), Vec::new())),
            Err(error) => Err(error.into()),
        }
    });
    removed.await
}

/// Runs the job. Steps that are done already are skipped.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_finish_merge(backend: Backend, job: FinishMerge) -> Result<(), JobFailure> {
    Ok(finish(&backend, &job).await?)
}

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_keep_merge_request(backend: Backend, job: KeepMergeRequest) -> Result<(), JobFailure> {
    Ok(refresh(&backend, job.merge_request_id).await?)
}
