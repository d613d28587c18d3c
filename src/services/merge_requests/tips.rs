//! The commits that the branches of merge requests stand at, and where their histories part.

use std::borrow::Cow;
use std::collections::BTreeMap;

use git::{ListCommits, Oid, Selection};
use storage::entities::merge_requests::Model;

use super::heads::repository;
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::events::pushes::oid;

/// Commits whose messages are read.
const MOST_MESSAGES: usize = 100;

/// A branch of a project.
#[derive(Debug, Clone, Copy)]
pub(super) struct BranchOf<'a> {
    /// The project.
    pub project_id: i64,
    /// The name.
    pub name: &'a str,
}

impl<'a> BranchOf<'a> {
    /// The branch that a merge request is merged into.
    pub fn target(merge_request: &'a Model) -> Self {
        Self {
            project_id: merge_request.target_project_id,
            name: &merge_request.target_branch,
        }
    }

    /// The branch that a merge request comes from, of this project.
    pub fn source(merge_request: &'a Model, project_id: i64) -> Self {
        Self {
            project_id,
            name: &merge_request.source_branch,
        }
    }
}

/// Where both branches of a merge request stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tips {
    /// The source branch.
    pub head: Oid,
    /// The target branch.
    pub start: Oid,
}

/// Looks where two branches stand.
///
/// # Errors
/// 400 that names those that are not there.
pub(super) async fn of(backend: &Backend, source: BranchOf<'_>, target: BranchOf<'_>) -> Result<Tips> {
    let head = tip(backend, source).await?;
    let start = tip(backend, target).await?;
    if let (Some(head), Some(start)) = (head, start) {
        return Ok(Tips { head, start });
    }
    let mut faults = BTreeMap::new();
    for (found, field, text, branch) in [
        (head, "source_branch", "Source", source),
        (start, "target_branch", "Target", target),
    ] {
        if found.is_none() {
            let fault = format!("{text} branch \"{}\" does not exist", branch.name);
            faults.insert(Cow::Borrowed(field), vec![Cow::Owned(fault)]);
        }
    }
    Err(Error::InvalidAttributes(faults))
}

/// Where a branch stands; none where it is not there.
///
/// # Errors
/// Whatever the repository reports.
pub(super) async fn tip(backend: &Backend, branch: BranchOf<'_>) -> Result<Option<Oid>> {
    match repository(backend, branch.project_id).branch(branch.name).await {
        Ok(found) => Ok(Some(found.commit)),
        Err(
            git::Error::BranchNotFound | git::Error::InvalidReferenceName | git::Error::RepositoryMissing,
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Where the histories of both branches part, or where the target stands if they have nothing in common; none as long as
/// neither repository has the commits of both.
///
/// # Errors
/// Whatever the repositories report.
pub(super) async fn base(
    backend: &Backend,
    target_project_id: i64,
    source_project_id: Option<i64>,
    tips: Tips,
) -> Result<Option<Oid>> {
    for repository in repositories(backend, [Some(target_project_id), source_project_id]) {
        let base = repository.merge_base(vec![tips.head, tips.start]).await;
        if let Some(base) = there(base)? {
            return Ok(Some(base.unwrap_or(tips.start)));
        }
    }
    Ok(None)
}

/// The messages of the commits that a head has and a base has not, the newest first; none where they are not there.
///
/// # Errors
/// Whatever the repositories report.
pub(super) async fn messages(
    backend: &Backend,
    project_ids: [Option<i64>; 2],
    head_sha: &str,
    base_sha: &str,
) -> Result<Vec<String>> {
    let (Some(base), Some(head)) = (oid(base_sha), oid(head_sha)) else {
        return Ok(Vec::new());
    };
    let page = ListCommits {
        selection: Selection {
            tips: vec![head],
            hidden: vec![base],
            ..Selection::default()
        },
        offset: 0,
        limit: MOST_MESSAGES,
    };
    for repository in repositories(backend, project_ids) {
        if let Some(ids) = there(repository.list_commits(page.clone()).await)? {
            let commits = repository.commits(ids).await?;
            return Ok(commits.into_iter().map(|commit| commit.message).collect());
        }
    }
    Ok(Vec::new())
}

/// The repositories of these projects, one of which has the commits that are asked for.
fn repositories(backend: &Backend, project_ids: [Option<i64>; 2]) -> impl Iterator<Item = git::Repository> {
    let ids = project_ids.into_iter().flatten();
    ids.map(|id| repository(backend, id))
}

/// What a repository answers; none where it has not all the commits that it was asked for.
fn there<T>(answer: git::Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(git::Error::ObjectNotFound | git::Error::RepositoryMissing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
