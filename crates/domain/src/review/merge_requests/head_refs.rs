//! Head refs: the commits of merge requests in their target repository, including commits from forks.

use git::{Oid, RepositoryId};
use storage::entities::merge_requests::Model;

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Stores the head of a merge request with its history in the target repository, and points
/// `refs/merge-requests/:iid/head` to it. The operation is idempotent.
///
/// # Errors
/// Returns `NotFound` if neither repository contains the head.
pub(crate) async fn update(backend: &Backend, merge_request: &Model) -> Result<()> {
    let head = oid(&merge_request.head_sha)?;
    let target = repository(backend, merge_request.target_project_id);
    if let Some(source) = merge_request.source_project_id
        && source != merge_request.target_project_id
    {
        target.import_commit(&repository(backend, source), head).await?;
    }
    target.set_merge_request_head(merge_request.iid, head).await?;
    Ok(())
}

/// Returns the target repository, after the head was stored in it, and the head.
///
/// # Errors
/// Returns the errors of [`update`].
pub(super) async fn ensure(backend: &Backend, merge_request: &Model) -> Result<(git::Repository, Oid)> {
    let head = oid(&merge_request.head_sha)?;
    let target = repository(backend, merge_request.target_project_id);
    if target.merge_request_head(merge_request.iid).await? != Some(head) {
        update(backend, merge_request).await?;
    }
    Ok((target, head))
}

/// Returns the repository of a project.
pub(super) fn repository(backend: &Backend, project_id: i64) -> git::Repository {
    backend
        .repositories
        .repository(&RepositoryId::of_project(project_id))
}

/// Parses a commit ID from the database.
///
/// # Errors
/// Returns an error if the text is not a commit ID.
pub(super) fn oid(text: &str) -> Result<Oid> {
    text.parse().map_err(Error::internal)
}
