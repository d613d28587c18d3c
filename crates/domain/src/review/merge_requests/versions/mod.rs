//! Versions of merge requests. Each push to the source branch creates a version, in the transaction that records the push
//! (`docs/adr/0066-record-versions-with-pushes.md`).

pub(super) mod by_commit;
pub(super) mod collection;
pub(super) mod pipelines;

use git::{Commit, CommitQuery, Diff};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder};
use storage::entities::merge_request_versions::{self, Column, Model as Version};

use crate::code::push_events::between;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;
use crate::review::merge_requests::find;
use crate::review::merge_requests::head_refs::{oid, repository};

/// Maximum number of commits of a version that are returned and recorded.
pub(super) const MAX_COMMITS: usize = 1_000;

/// A version with its commits and changes.
#[derive(Debug, Clone)]
pub struct VersionDetail {
    /// The version.
    pub version: Version,
    /// The commits, newest first.
    pub commits: Vec<Commit>,
    /// The changes.
    pub diff: Diff,
}

/// Lists the versions of a merge request, newest first.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn list_versions(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<Version>> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let versions = || merge_request_versions::of(merge_request.id).order_by_desc(Column::Id);
    let found = page_of(db, versions(), page).await?;
    if found.items.iter().all(|version| version.collected) {
        return Ok(found);
    }
    // The job that collects the versions after a push has not run yet.
    collection::complete(backend, merge_request.clone()).await?;
    page_of(db, versions(), page).await
}

/// Returns a version of a merge request with its commits and changes.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible to the caller, or the version does not exist or belongs to another
/// merge request. Returns `TimedOut` if the diff takes too long.
pub async fn get_version(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    version_id: i64,
) -> Result<VersionDetail> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let version = || merge_request_versions::of(merge_request.id).filter(Column::Id.eq(version_id));
    let missing = || Error::not_found("Version");
    let mut found = version().one(db).await?.ok_or_else(missing)?;
    if !found.collected {
        collection::complete(backend, merge_request.clone()).await?;
        found = version().one(db).await?.ok_or_else(missing)?;
    }
    let repository = access
        .caller
        .with_shares(repository(backend, merge_request.target_project_id));
    let (base, head) = (oid(&found.base_sha)?, oid(&found.head_sha)?);
    let newest = CommitQuery {
        selection: between(Some(base), head),
        offset: 0,
        limit: MAX_COMMITS,
    };
    let ids = repository.list_commits(newest).await.map_err(commit_missing)?;
    let commits = repository.commits(ids).await.map_err(commit_missing)?;
    let diff = repository
        .diff_between(base, head)
        .await
        .map_err(commit_missing)?;
    Ok(VersionDetail {
        version: found,
        commits,
        diff,
    })
}

/// Maps the error of a version whose commits were never stored, because the source project was deleted first.
fn commit_missing(error: git::Error) -> Error {
    match error {
        git::Error::ObjectNotFound => Error::not_found("Commit"),
        error => error.into(),
    }
}
