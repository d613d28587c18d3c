//! Consistency check of the database, the repositories and the registry blobs, of the keys of encrypted values, and of
//! the access to the data directory. Includes every object of the repositories.

use std::collections::HashSet;
use std::path::Path;

use chrono::TimeDelta;
use git::RepositoryId;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::{namespaces, now, projects, ref_updates};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::operations::disk_space::{DiskSpace, SpaceState};
use crate::operations::{data_directory, key_rotation};
use crate::registry;

/// Projects read per statement.
const BATCH: u64 = 200;
/// Age up to which an unfinished change may still be in progress in a running server.
const MAX_CHANGE_AGE: TimeDelta = TimeDelta::hours(7);

/// Result of a check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// Number of projects.
    pub projects: usize,
    /// Problems, one line each.
    pub problems: Vec<String>,
}

/// Checks the whole instance. `deserted` means that no server is running, so no change can be in progress.
///
/// # Errors
/// Returns an error if the database or the data directory cannot be read. Errors of a repository become findings.
pub async fn check(backend: &Backend, data_dir: &Path, deserted: bool) -> Result<CheckResult> {
    // Listed before the rows, so that new repositories are not reported as orphans.
    let mut orphans: HashSet<RepositoryId> = backend.repositories.stored().await?.into_iter().collect();
    let mut findings = CheckResult::default();
    let mut after = 0;
    loop {
        let batch = projects::Entity::find()
            .filter(projects::Column::Id.gt(after))
            .find_also_related(namespaces::Entity)
            .order_by_asc(projects::Column::Id)
            .limit(BATCH)
            .all(backend.database.read())
            .await?;
        let Some((last, _)) = batch.last() else { break };
        after = last.id;
        for (project, namespace) in batch {
            findings.projects += 1;
            orphans.remove(&RepositoryId::of_project(project.id));
            // A deletion in progress may have removed the repository already.
            if project.deletion_started_at.is_some() {
                continue;
            }
            let above = namespace.map(|namespace| namespace.full_path).unwrap_or_default();
            let name = format!("project {} ({above}/{})", project.id, project.path);
            let problems = match check_project(backend, &project).await {
                Ok(problems) => problems,
                Err(error) => vec![error.to_string()],
            };
            let lines = problems.into_iter().map(|problem| format!("{name}: {problem}"));
            findings.problems.extend(lines);
        }
    }
    let mut orphans: Vec<String> = orphans.into_iter().map(|id| format!("{id:?}")).collect();
    orphans.sort_unstable();
    let lines = orphans
        .into_iter()
        .map(|id| format!("repository {id}: it belongs to no project"));
    findings.problems.extend(lines);
    findings
        .problems
        .extend(registry::integrity::check(backend).await?);
    let before = if deserted { now() } else { now() - MAX_CHANGE_AGE };
    for intent in ref_updates::pending(backend.database.read(), before).await? {
        findings.problems.push(format!(
            "project {}: the ref update announced at {} was never recorded; restart the server to recover it",
            intent.project_id,
            intent.created_at.to_rfc3339()
        ));
    }
    findings.problems.extend(check_keys(backend).await?);
    findings.problems.extend(check_access(data_dir).await?);
    findings.problems.extend(check_disk(backend).await?);
    Ok(findings)
}

/// Returns the columns with values that do not use the current key.
async fn check_keys(backend: &Backend) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for survey in key_rotation::survey(backend).await? {
        let column = format!("{}.{}", survey.column.table(), survey.column.column());
        if survey.former > 0 {
            problems.push(format!(
                "{column}: {} values use a former encryption key; `holdfast admin rotate-key` finishes the rotation",
                survey.former
            ));
        }
        if let Some(first) = survey.unreadable.first() {
            problems.push(format!(
                "{column}: no key decrypts {} values, such as that of the row {} ({}); restore the key file that \
                 contains their key, \
                 or remove them with `holdfast admin rotate-key --discard-unreadable`",
                survey.unreadable.len(),
                first.id,
                first.cause
            ));
        }
    }
    Ok(problems)
}

/// Returns a problem if little disk space is left.
async fn check_disk(backend: &Backend) -> Result<Option<String>> {
    let space = DiskSpace::of_instance(backend).await.map_err(Error::internal)?;
    let low = backend.instance.low_disk_bytes;
    Ok((space.state(low) != SpaceState::Sufficient).then(|| {
        format!(
            "disk: {} MiB are free, less than the {} MiB of low_disk_bytes; delete files, or move the data directory to a \
             larger disk",
            space.free >> 20,
            low >> 20
        )
    }))
}

/// Returns a problem if other users of the machine can access the data directory or a part of it.
async fn check_access(data_dir: &Path) -> Result<Option<String>> {
    let found = data_directory::examine(data_dir).await.map_err(Error::internal)?;
    let paths: Vec<String> = found
        .examples
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let directory = data_dir.display();
    Ok((found.accessible > 0).then(|| {
        format!(
            "data directory {directory}: other users can access {} of its files and directories, such as {}; a running \
             server corrects this within a day, and `chmod -R go= {directory}` at once",
            found.accessible,
            paths.join(", ")
        )
    }))
}

async fn check_project(backend: &Backend, project: &projects::Model) -> git::Result<Vec<String>> {
    let id = RepositoryId::of_project(project.id);
    if !backend.repositories.exists(&id).await? {
        return Ok(vec!["its repository is missing".to_owned()]);
    }
    let repository = backend.repositories.repository(&id);
    let mut problems = Vec::new();
    match &project.default_branch {
        None if !repository.is_empty().await? => {
            problems.push("it has branches but no default branch".to_owned());
        }
        None => {}
        Some(name) => {
            if matches!(repository.branch(name).await, Err(git::Error::BranchNotFound)) {
                problems.push(format!("its default branch {name} does not exist"));
            }
            let head = repository.default_branch().await?;
            if head != *name {
                problems.push(format!("its default branch is {name}, but HEAD points to {head}"));
            }
        }
    }
    let broken = repository.fsck().await?.into_iter();
    problems.extend(broken.map(|line| format!("git fsck: {line}")));
    Ok(problems)
}
