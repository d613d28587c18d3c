//! Commits and changed files of a merge request.

use git::{ByteStream, Diff, DiffEntry, Oid, Repository};
use storage::entities::merge_requests::{MergeRequestState, Model};

use super::find;
use super::joined_row::JoinedMergeRequest;
use super::row::{self, MergeRequestDetail, MergeRequestInclude};
use crate::code::commits::listing::{self, CommitDetail};
use crate::code::push_events::between;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::review::merge_requests::branch_heads::{self, BranchRef};
use crate::review::merge_requests::head_refs::{self, oid};

/// Maximum number of counted commits that are only in the target.
const MAX_DIVERGED: usize = 10_000;

/// Lists the commits of a merge request, newest first.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn list_commits(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<CommitDetail>> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    let (repository, base, head) = endpoints(backend, &merge_request).await?;
    let repository = access.caller.with_shares(repository);
    listing::page_of(&repository, between(Some(base), head), false, page).await
}

/// Returns a merge request with the files that it changes.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller. Returns `TimedOut`
/// if the diff takes too long.
pub async fn get_changes(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
) -> Result<(MergeRequestDetail, Diff)> {
    let found = JoinedMergeRequest::find(backend.database.read(), access, iid).await?;
    let (repository, base, head) = endpoints(backend, &found.merge_request).await?;
    let diff = repository.diff_between(base, head).await?;
    let include = MergeRequestInclude {
        changes_count: Some(format_count(&diff)),
        ..MergeRequestInclude::default()
    };
    Ok((row::load_found(backend, access, found, include).await?, diff))
}

/// Returns a page of the files that a merge request changes.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller. Returns `TimedOut`
/// if the diff takes too long.
pub async fn list_diffs(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<DiffEntry>> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    let (repository, base, head) = endpoints(backend, &merge_request).await?;
    Ok(listing::page_of_diff(
        repository.diff_between(base, head).await?,
        page,
    ))
}

/// Starts to compute the changes of a merge request as text.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller, and `Busy` if too many transfers
/// are running.
pub async fn open_raw_diff(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<ByteStream> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    let (repository, base, head) = endpoints(backend, &merge_request).await?;
    let repository = access.caller.with_shares(repository);
    Ok(repository.raw_diff(base, head).await?)
}

/// Returns the number of files that a merge request changes, as text that marks a truncated count. Returns
/// `None` if the number is unknown.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub(super) async fn count_changes(backend: &Backend, merge_request: &Model) -> Result<Option<String>> {
    let (repository, base, head) = match endpoints(backend, merge_request).await {
        Err(Error::NotFound(_)) => return Ok(None),
        endpoints => endpoints?,
    };
    match repository.diff_between(base, head).await {
        Ok(diff) => Ok(Some(format_count(&diff))),
        Err(git::Error::Timeout) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the number of files in a diff, as text that marks a truncated diff.
pub(super) fn format_count(diff: &Diff) -> String {
    let suffix = if diff.truncated { "+" } else { "" };
    format!("{}{suffix}", diff.entries.len())
}

/// Returns how many commits are in the target branch but not in the source branch, or `None` if the number is
/// unknown.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub(super) async fn count_diverged(backend: &Backend, merge_request: &Model) -> Result<Option<usize>> {
    let (repository, head) = match head_refs::ensure(backend, merge_request).await {
        Err(Error::NotFound(_)) => return Ok(None),
        prepared => prepared?,
    };
    let Some(target) = branch_heads::head(backend, BranchRef::target(merge_request)).await? else {
        return Ok(None);
    };
    let selection = between(Some(head), target);
    Ok(Some(repository.count_commits(selection, MAX_DIVERGED).await?))
}

/// Returns the repository that contains the commits of a merge request, the merge base and the head. For an
/// open merge request the base uses the current target branch, otherwise the recorded one.
pub(super) async fn endpoints(backend: &Backend, merge_request: &Model) -> Result<(Repository, Oid, Oid)> {
    let (repository, head) = head_refs::ensure(backend, merge_request).await?;
    let recorded_base = oid(&merge_request.base_sha)?;
    let target = match merge_request.state {
        MergeRequestState::Opened => branch_heads::head(backend, BranchRef::target(merge_request)).await?,
        _ => None,
    };
    let base = match target {
        Some(target) => repository
            .merge_base(vec![target, head])
            .await?
            .unwrap_or(recorded_base),
        None => recorded_base,
    };
    Ok((repository, base, head))
}
