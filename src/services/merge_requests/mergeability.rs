//! Whether a merge request can be merged: looked at when somebody wants to know, once for each pair of commits.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::heads;
use super::tips::{self, BranchOf};
use crate::entities::merge_requests::{Column, Entity, MergeStatus, Model, State};
use crate::error::{Error, Result};
use crate::git;
use crate::services::Backend;

/// Brings the status of an open merge request up to date; others keep theirs. Git that takes too long leaves it as it is.
///
/// # Errors
/// Whatever the database or the repository reports.
pub(super) async fn check(backend: &Backend, mut merge_request: Model) -> Result<Model> {
    if merge_request.state != State::Opened {
        return Ok(merge_request);
    }
    let target = tips::tip(backend, BranchOf::target(&merge_request)).await?;
    let of = match target {
        Some(target) => format!("{target}:{}", merge_request.head_sha),
        None => format!(":{}", merge_request.head_sha),
    };
    let known = merge_request.merge_status != MergeStatus::Unchecked;
    if known && merge_request.merge_status_of.as_deref() == Some(&of) {
        return Ok(merge_request);
    }
    let status = match target {
        None => MergeStatus::CannotBeMerged,
        Some(target) => match merges(backend, &merge_request, target).await {
            Ok(true) => MergeStatus::CanBeMerged,
            Ok(false) => MergeStatus::CannotBeMerged,
            Err(Error::NotFound(_)) => MergeStatus::CannotBeMerged,
            Err(Error::TimedOut) => return Ok(merge_request),
            Err(error) => return Err(error),
        },
    };
    Entity::update_many()
        .col_expr(Column::MergeStatus, Expr::value(status))
        .col_expr(Column::MergeStatusOf, Expr::value(of.as_str()))
        .filter(Column::Id.eq(merge_request.id))
        .filter(Column::HeadSha.eq(merge_request.head_sha.as_str()))
        .filter(Column::State.eq(State::Opened))
        .exec(backend.database.write())
        .await?;
    merge_request.merge_status = status;
    merge_request.merge_status_of = Some(of);
    Ok(merge_request)
}

async fn merges(backend: &Backend, merge_request: &Model, target: git::Oid) -> Result<bool> {
    let (repository, head) = heads::ready(backend, merge_request).await?;
    // Who has it all has nothing to merge.
    Ok(!repository.is_ancestor(head, target).await? && repository.merges_cleanly(target, head).await?)
}
