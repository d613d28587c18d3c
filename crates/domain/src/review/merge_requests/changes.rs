//! Commits and changed files of a merge request.

use git::{Diff, Oid, Repository};
use storage::entities::merge_requests::{MergeRequestState, Model};

use super::find;
use super::row::{self, Row, Wanted};
use crate::code::commits::listing::{self, CommitDetail};
use crate::code::push_events::between;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::review::merge_requests::branch_heads::{self, BranchOf};
use crate::review::merge_requests::head_refs::{self, oid};

/// Maximum number of counted commits that are only in the target.
const MOST_DIVERGED: usize = 10_000;

/// Lists the commits of a merge request, newest first.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn commits(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<CommitDetail>> {
    let found = find(backend.database.read(), access, iid).await?;
    let (repository, base, head) = ends(backend, &found).await?;
    listing::page_of(&repository, between(Some(base), head), false, page).await
}

/// Returns a merge request with the files that it changes.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller. Returns `TimedOut`
/// if the diff takes too long.
pub async fn changes(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<(Row, Diff)> {
    let found = find(backend.database.read(), access, iid).await?;
    let (repository, base, head) = ends(backend, &found).await?;
    let diff = repository.diff_between(base, head).await?;
    let wanted = Wanted {
        counted: Some(told(&diff)),
        ..Wanted::default()
    };
    Ok((row::of_one(backend, access, found, wanted).await?, diff))
}

/// Returns the number of files that a merge request changes, as text that marks a truncated count. Returns
/// `None` if the number is unknown.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub(super) async fn count(backend: &Backend, found: &Model) -> Result<Option<String>> {
    let (repository, base, head) = match ends(backend, found).await {
        Err(Error::NotFound(_)) => return Ok(None),
        ends => ends?,
    };
    match repository.diff_between(base, head).await {
        Ok(diff) => Ok(Some(told(&diff))),
        Err(git::Error::Timeout) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn told(diff: &Diff) -> String {
    let more = if diff.truncated { "+" } else { "" };
    format!("{}{more}", diff.entries.len())
}

/// Returns how many commits are in the target branch but not in the source branch, or `None` if the number is
/// unknown.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub(super) async fn diverged(backend: &Backend, found: &Model) -> Result<Option<usize>> {
    let (repository, head) = match head_refs::ready(backend, found).await {
        Err(Error::NotFound(_)) => return Ok(None),
        ready => ready?,
    };
    let Some(target) = branch_heads::tip(backend, BranchOf::target(found)).await? else {
        return Ok(None);
    };
    let selection = between(Some(head), target);
    Ok(Some(repository.count_commits(selection, MOST_DIVERGED).await?))
}

/// Returns the repository that contains the commits of a merge request, the merge base and the head. For an
/// open merge request the base uses the current target branch, otherwise the recorded one.
async fn ends(backend: &Backend, found: &Model) -> Result<(Repository, Oid, Oid)> {
    let (repository, head) = head_refs::ready(backend, found).await?;
    let then = oid(&found.base_sha)?;
    let now = match found.state {
        MergeRequestState::Opened => branch_heads::tip(backend, BranchOf::target(found)).await?,
        _ => None,
    };
    let base = match now {
        Some(target) => repository.merge_base(vec![target, head]).await?.unwrap_or(then),
        None => then,
    };
    Ok((repository, base, head))
}
