//! Mergeability of merge requests: computed on demand, once for each pair of commits.

pub(super) mod merge_ref;

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::Scope;
use storage::entities::merge_requests::{Column, Entity, MergeRequestState, MergeStatus, Model};
use storage::entities::todos::{TodoAction, TodoTarget};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::planning::todo_writer::{self, TodoCause};
use crate::review::merge_requests::branch_heads::{self, BranchRef};
use crate::review::merge_requests::head_refs;

/// Updates the merge status of an open merge request; others are unchanged. If Git times out, the status is
/// unchanged.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn update(backend: &Backend, mut merge_request: Model) -> Result<Model> {
    if merge_request.state != MergeRequestState::Opened {
        return Ok(merge_request);
    }
    let target = branch_heads::head(backend, BranchRef::target(&merge_request)).await?;
    let status_of = match target {
        Some(target) => format!("{target}:{}", merge_request.head_sha),
        None => format!(":{}", merge_request.head_sha),
    };
    let is_checked = merge_request.merge_status != MergeStatus::Unchecked;
    if is_checked && merge_request.merge_status_of.as_deref() == Some(&status_of) {
        return Ok(merge_request);
    }
    let result = match target {
        None => TrialMerge::Nothing,
        Some(target) => match try_merge(backend, &merge_request, target).await {
            Ok(result) => result,
            Err(Error::NotFound(_)) => TrialMerge::Nothing,
            Err(Error::TimedOut) => return Ok(merge_request),
            Err(error) => return Err(error),
        },
    };
    let status = match result {
        TrialMerge::Clean => MergeStatus::CanBeMerged,
        TrialMerge::Conflicts | TrialMerge::Nothing => MergeStatus::CannotBeMerged,
    };
    let before = (merge_request.merge_status, merge_request.merge_status_of.take());
    let update = Entity::update_many()
        .col_expr(Column::MergeStatus, Expr::value(status))
        .col_expr(Column::MergeStatusOf, Expr::value(status_of.as_str()))
        .filter(Column::Id.eq(merge_request.id))
        .filter(Column::HeadSha.eq(merge_request.head_sha.as_str()))
        .filter(Column::State.eq(MergeRequestState::Opened));
    let update = match before.1 {
        Some(before) => update.filter(Column::MergeStatusOf.eq(before)),
        None => update.filter(Column::MergeStatusOf.is_null()),
    };
    backend
        .database
        .transaction(async |transaction| {
            let is_first = update.exec(transaction).await?.rows_affected == 1;
            match is_first && result == TrialMerge::Conflicts && before.0 != MergeStatus::CannotBeMerged {
                true => create_todos(transaction, &merge_request).await,
                false => Ok(()),
            }
        })
        .await?;
    merge_request.merge_status = status;
    merge_request.merge_status_of = Some(status_of);
    Ok(merge_request)
}

/// Result of a trial merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialMerge {
    /// The merge succeeds.
    Clean,
    /// The merge has conflicts.
    Conflicts,
    /// No merge: a commit is missing, or the target contains all commits already.
    Nothing,
}

async fn try_merge(backend: &Backend, merge_request: &Model, target: git::Oid) -> Result<TrialMerge> {
    let (repository, head) = head_refs::ensure(backend, merge_request).await?;
    if repository.is_ancestor(head, target).await? {
        return Ok(TrialMerge::Nothing);
    }
    Ok(match repository.merges_cleanly(target, head).await? {
        true => TrialMerge::Clean,
        false => TrialMerge::Conflicts,
    })
}

/// Creates to-do items about the conflicts for the author and the user who enabled the automatic merge.
async fn create_todos(transaction: &DatabaseTransaction, merge_request: &Model) -> Result<()> {
    let author = merge_request.author_id;
    let merge_user = merge_request
        .merge_user_id
        .filter(|id| merge_request.merge_when_pipeline_succeeds && Some(*id) != author);
    let users = author.into_iter().chain(merge_user);
    let cause = TodoCause {
        scope: Scope::Project(merge_request.target_project_id),
        author_id: author,
        note_id: None,
    };
    let target = TodoTarget::MergeRequest(merge_request.id);
    let users = users.map(|id| (id, TodoAction::Unmergeable)).collect();
    todo_writer::create(transaction, target, cause, users).await?;
    Ok(())
}
