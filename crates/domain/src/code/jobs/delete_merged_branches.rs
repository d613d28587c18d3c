//! Deletes the branches that are merged into the default branch.

use std::collections::HashSet;

use git::{LockedRepository, RepositoryId};
use sea_orm::{ColumnTrait, QueryFilter};
use serde::{Deserialize, Serialize};
use storage::entities::ref_updates::RefUpdateKind;
use storage::entities::{merge_requests, projects};
use storage::jobs::{Job, JobFailure};

use crate::code::branch_protection;
use crate::code::ref_updates::{UpdateAuthority, prepare_and_update_refs};
use crate::kernel::Backend;
use crate::kernel::ref_changes::{RefChange, RefUpdate};

/// Deletes the branches of a project that are merged into its default branch, except protected ones and the branches of
/// open merge requests.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteMergedBranches {
    /// The project.
    pub project_id: i64,
    /// The user who requested it.
    pub user_id: Option<i64>,
}

impl Job for DeleteMergedBranches {
    const KIND: &'static str = "delete_merged_branches";
    const MAX_ATTEMPTS: u16 = 5;

    fn dedup_key(&self) -> Option<String> {
        Some(self.project_id.to_string())
    }
}

/// Runs the job. It does nothing for a project that is deleted, archived or empty.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run(backend: Backend, job: DeleteMergedBranches) -> Result<(), JobFailure> {
    let db = backend.database.read();
    let project = projects::not_deleted()
        .filter(projects::Column::Id.eq(job.project_id))
        .one(db)
        .await?;
    let Some((into, project_id)) = project
        .filter(|project| !project.archived)
        .and_then(|project| Some((project.default_branch?, project.id)))
    else {
        return Ok(());
    };
    let repository = backend
        .repositories
        .repository(&RepositoryId::of_project(project_id));
    let mut deletable: HashSet<String> = merged_branches(&repository, &into).await?.into_iter().collect();
    retain_deletable(&backend, project_id, &mut deletable).await?;
    if deletable.is_empty() {
        return Ok(());
    }
    let planned = deletable
        .iter()
        .map(|name| format!("refs/heads/{name}"))
        .collect();
    let update = RefUpdate::new(project_id, job.user_id, RefUpdateKind::Api);
    let prepare = async move { Ok(repository.lock().await?) };
    let database = backend.clone();
    let delete = async move |locked: LockedRepository| {
        // A protection or merge request that was acknowledged before the lock counts, too.
        retain_deletable(&database, project_id, &mut deletable).await?;
        let deleted = locked
            .delete_merged_branches(&into, move |name| !deletable.contains(name))
            .await?;
        let changes = deleted
            .iter()
            .map(|branch| RefChange::branch(&branch.name, Some(branch.commit), None));
        Ok(((), changes.collect()))
    };
    prepare_and_update_refs(
        &backend,
        update,
        UpdateAuthority::Server(planned),
        prepare,
        delete,
    )
    .await?;
    Ok(())
}

/// Removes the names of protected branches and of the branches of open merge requests, or all names if the project is
/// archived or deleted.
async fn retain_deletable(
    backend: &Backend,
    project_id: i64,
    names: &mut HashSet<String>,
) -> crate::kernel::error::Result<()> {
    let db = backend.database.read();
    let project = projects::not_deleted()
        .filter(projects::Column::Id.eq(project_id))
        .filter(projects::Column::Archived.eq(false));
    let Some(project) = project.one(db).await? else {
        names.clear();
        return Ok(());
    };
    let rules = branch_protection::rules_of(db, &project).await?;
    names.retain(|name| !branch_protection::is_protected(&rules, name));
    if !names.is_empty() {
        let used = merge_requests::open_branches(db, project_id).await?;
        names.retain(|name| !used.contains(name));
    }
    Ok(())
}

/// Returns the names of the other branches whose commits are all in the branch `into`.
async fn merged_branches(repository: &git::Repository, into: &str) -> git::Result<Vec<String>> {
    let base = match repository.branch(into).await {
        Err(git::Error::BranchNotFound | git::Error::RepositoryMissing) => return Ok(Vec::new()),
        base => base?.commit,
    };
    let all = git::PageWindow {
        offset: 0,
        limit: usize::MAX,
    };
    let mut others = repository.branches(None, all).await?.branches;
    others.retain(|branch| branch.name != into);
    let tips = others.iter().map(|branch| branch.commit).collect();
    let merged = repository.merged_into(base, tips).await?;
    let names = others
        .into_iter()
        .filter(|branch| merged.contains(&branch.commit));
    Ok(names.map(|branch| branch.name).collect())
}
