//! The commits of merge requests in the repositories that they are to be merged into, whichever fork they come from.

use git::{Oid, RepositoryId};
use storage::entities::merge_requests::Model;

use crate::error::{Error, Result};
use crate::services::Backend;

/// Sees to it that the head of a merge request, with all its history, is in the repository of its target, and that
/// `refs/merge-requests/:iid/head` leads to it. May be done again at any time.
///
/// # Errors
/// 404 when the head is in neither repository any more.
pub(in crate::services) async fn keep(backend: &Backend, merge_request: &Model) -> Result<()> {
    let head = oid(&merge_request.head_sha)?;
    let target = repository(backend, merge_request.target_project_id);
    if let Some(source) = merge_request.source_project_id
        && source != merge_request.target_project_id
    {
        target.import_commit(&repository(backend, source), head).await?;
    }
    target.keep_merge_request(merge_request.iid, head).await?;
    Ok(())
}

/// The repository of the target with the head in it, and the head.
///
/// # Errors
/// As [`keep`].
pub(super) async fn ready(backend: &Backend, merge_request: &Model) -> Result<(git::Repository, Oid)> {
    let head = oid(&merge_request.head_sha)?;
    let target = repository(backend, merge_request.target_project_id);
    if target.kept_merge_request(merge_request.iid).await? != Some(head) {
        keep(backend, merge_request).await?;
    }
    Ok((target, head))
}

/// The repository of a project.
pub(super) fn repository(backend: &Backend, project_id: i64) -> git::Repository {
    backend
        .repositories
        .repository(&RepositoryId::of_project(project_id))
}

/// An id that the database keeps.
///
/// # Errors
/// When it is none.
pub(super) fn oid(text: &str) -> Result<Oid> {
    text.parse().map_err(Error::internal)
}
