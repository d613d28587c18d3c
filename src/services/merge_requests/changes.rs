//! What a merge request brings: its commits, and what they change together.

use git::{Diff, Oid, Repository};
use storage::entities::merge_requests::{Model, State};

use super::find;
use super::heads::{self, oid};
use super::row::{self, Row, Wanted};
use super::tips::{self, BranchOf};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::commits::listing::{self, Listed};
use crate::services::events::pushes::between;
use crate::services::kernel::page::{Page, PageRequest};

/// Commits that are counted of those that the target has and the source has not.
const MOST_DIVERGED: usize = 10_000;

/// A page of the commits that a merge request brings, the newest first.
///
/// # Errors
/// 404, also where the caller may not see it.
pub async fn commits(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<Listed>> {
    let found = find(backend.database.read(), access, iid).await?;
    let (repository, base, head) = ends(backend, &found).await?;
    listing::page_of(&repository, between(Some(base), head), false, page).await
}

/// A merge request with the files that it changes.
///
/// # Errors
/// 404, also where the caller may not see it; 503 where the difference takes too long.
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

/// How many files a merge request changes, as text that says where there are more; none where that cannot be told.
///
/// # Errors
/// Whatever the repositories report.
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

/// How many commits the target branch has that the source branch has not; none where that cannot be told.
///
/// # Errors
/// Whatever the repositories report.
pub(super) async fn diverged(backend: &Backend, found: &Model) -> Result<Option<usize>> {
    let (repository, head) = match heads::ready(backend, found).await {
        Err(Error::NotFound(_)) => return Ok(None),
        ready => ready?,
    };
    let Some(target) = tips::tip(backend, BranchOf::target(found)).await? else {
        return Ok(None);
    };
    let selection = between(Some(head), target);
    Ok(Some(repository.count_commits(selection, MOST_DIVERGED).await?))
}

/// The repository that has the commits of a merge request, where its history parts from that of the target, and its head: as
/// that stands now while it is open, and as it stood then when it is not any more.
async fn ends(backend: &Backend, found: &Model) -> Result<(Repository, Oid, Oid)> {
    let (repository, head) = heads::ready(backend, found).await?;
    let then = oid(&found.base_sha)?;
    let now = match found.state {
        State::Opened => tips::tip(backend, BranchOf::target(found)).await?,
        _ => None,
    };
    let base = match now {
        Some(target) => repository.merge_base(vec![target, head]).await?.unwrap_or(then),
        None => then,
    };
    Ok((repository, base, head))
}
