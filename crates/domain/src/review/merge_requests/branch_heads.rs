//! Heads of the branches of merge requests and their merge base.

use std::borrow::Cow;
use std::collections::BTreeMap;

use git::{CommitQuery, CommitSelection, Oid};
use storage::entities::merge_requests::Model;

use crate::code::push_events::oid;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::review::merge_requests::head_refs::repository;

/// Maximum number of commits whose messages are read.
const MAX_MESSAGES: usize = 100;

/// A branch of a project.
#[derive(Debug, Clone, Copy)]
pub(super) struct BranchRef<'a> {
    /// The project.
    pub project_id: i64,
    /// The name.
    pub name: &'a str,
}

impl<'a> BranchRef<'a> {
    /// Returns the target branch of a merge request.
    pub fn target(merge_request: &'a Model) -> Self {
        Self {
            project_id: merge_request.target_project_id,
            name: &merge_request.target_branch,
        }
    }

    /// Returns the source branch of a merge request, in this project.
    pub fn source(merge_request: &'a Model, project_id: i64) -> Self {
        Self {
            project_id,
            name: &merge_request.source_branch,
        }
    }
}

/// Heads of both branches of a merge request.
#[derive(Debug, Clone, Copy)]
pub(super) struct BranchHeads {
    /// Head of the source branch.
    pub head: Oid,
    /// Head of the target branch.
    pub start: Oid,
}

/// Returns the heads of two branches.
///
/// # Errors
/// Returns a validation error that names the missing branches.
pub(super) async fn find(
    backend: &Backend,
    source: BranchRef<'_>,
    target: BranchRef<'_>,
) -> Result<BranchHeads> {
    let (head, start) = (head(backend, source).await?, head(backend, target).await?);
    if let (Some(head), Some(start)) = (head, start) {
        return Ok(BranchHeads { head, start });
    }
    let mut errors = BTreeMap::new();
    for (found, field, text, branch) in [
        (head, "source_branch", "Source", source),
        (start, "target_branch", "Target", target),
    ] {
        if found.is_none() {
            let error = format!("{text} branch \"{}\" does not exist", branch.name);
            errors.insert(Cow::Borrowed(field), vec![Cow::Owned(error)]);
        }
    }
    Err(Error::InvalidAttributes(errors))
}

/// Returns the head of a branch, or `None` if it does not exist.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub(super) async fn head(backend: &Backend, branch: BranchRef<'_>) -> Result<Option<Oid>> {
    match repository(backend, branch.project_id).branch(branch.name).await {
        Ok(found) => Ok(Some(found.commit)),
        Err(
            git::Error::BranchNotFound | git::Error::InvalidReferenceName | git::Error::RepositoryMissing,
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the merge base of both branches, or the head of the target if their histories are unrelated.
/// Returns `None` if neither repository contains the commits of both.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub(super) async fn merge_base(
    backend: &Backend,
    target_project_id: i64,
    source_project_id: Option<i64>,
    heads: BranchHeads,
) -> Result<Option<Oid>> {
    for repository in repositories(backend, [Some(target_project_id), source_project_id]) {
        let base = repository.merge_base(vec![heads.head, heads.start]).await;
        if let Some(base) = unless_missing(base)? {
            return Ok(Some(base.unwrap_or(heads.start)));
        }
    }
    Ok(None)
}

/// Returns the messages of the commits between a base and a head, newest first, or `None` if the commits are
/// missing.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub(super) async fn messages(
    backend: &Backend,
    project_ids: [Option<i64>; 2],
    head_sha: &str,
    base_sha: &str,
) -> Result<Vec<String>> {
    let (Some(base), Some(head)) = (oid(base_sha), oid(head_sha)) else {
        return Ok(Vec::new());
    };
    let page = CommitQuery {
        selection: CommitSelection {
            tips: vec![head],
            hidden: vec![base],
            ..CommitSelection::default()
        },
        offset: 0,
        limit: MAX_MESSAGES,
    };
    for repository in repositories(backend, project_ids) {
        if let Some(ids) = unless_missing(repository.list_commits(page.clone()).await)? {
            let commits = repository_access::commits_of_limited_size(&repository, ids).await?;
            return Ok(commits.into_iter().map(|commit| commit.message).collect());
        }
    }
    Ok(Vec::new())
}

/// Returns the repositories of these projects, one of which contains the commits.
fn repositories(backend: &Backend, project_ids: [Option<i64>; 2]) -> impl Iterator<Item = git::Repository> {
    let ids = project_ids.into_iter().flatten();
    ids.map(|id| repository(backend, id))
}

/// Converts the result of a repository: `None` if a requested commit is missing.
fn unless_missing<T>(result: git::Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(git::Error::ObjectNotFound | git::Error::RepositoryMissing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the source project with the caller's permissions.
pub(super) async fn source_access(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: &Model,
) -> Result<ProjectAccess> {
    let failure = || Error::forbidden_because("Source branch does not exist");
    let id = merge_request.source_project_id.ok_or_else(failure)?;
    let source = ProjectAccess::find(backend, access.caller.clone(), &id.to_string()).await;
    let source = source.map_err(|error| match error {
        Error::NotFound(_) => failure(),
        other => other,
    })?;
    match head(backend, BranchRef::source(merge_request, id)).await? {
        Some(_) => Ok(source),
        None => Err(failure()),
    }
}
