//! Consistency check of the database, the repositories, the registry blobs and the packages, of uploads, avatars and
//! archives, of the keys of encrypted values, and of the access to the data directory. Includes every object of the
//! repositories.

mod objects;
mod tables;

use std::collections::HashSet;
use std::path::Path;

use chrono::TimeDelta;
use git::RepositoryId;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::{namespaces, now, projects, ref_updates};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::operations::check::Check;
use crate::operations::disk_space::{DiskMonitor, SpaceState};
use crate::operations::{data_directory, key_rotation};
use crate::packages;
use crate::registry;
use crate::spaces::projects::imports::WAITING;
use objects::{check_archives, check_avatars, check_storage, check_uploads};
use tables::check_tables;

/// Projects read per statement.
const BATCH: u64 = 200;
/// Age up to which an unfinished change may still be in progress in a running server.
const MAX_CHANGE_AGE: TimeDelta = TimeDelta::hours(7);

/// Result of all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// Number of projects.
    pub projects: u64,
    /// The checks.
    pub checks: Vec<Check>,
}

/// Progress of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoctorEvent {
    /// The things that are being checked, such as `projects`.
    pub subject: &'static str,
    /// The number of checked things.
    pub done: u64,
    /// The number of all things, if it is known.
    pub total: Option<u64>,
}

/// Receives the progress of the check.
pub type DoctorReport<'a> = &'a mut (dyn FnMut(DoctorEvent) + Send);

/// Checks the whole instance. `deserted` means that no server is running, so no change can be in progress. `report` is
/// called after each project and before each other check.
///
/// # Errors
/// Returns an error if the database or the data directory cannot be read. Errors of a repository become findings.
pub async fn check(
    backend: &Backend,
    data_dir: &Path,
    deserted: bool,
    report: DoctorReport<'_>,
) -> Result<Examination> {
    // Listed before the rows, so that new repositories are not reported as orphans.
    let stored = backend.repositories.stored().await?;
    let mut directories = Check::new("directories of repositories");
    directories.checked = stored.len() as u64;
    let mut orphans: HashSet<RepositoryId> = stored.into_iter().collect();
    let (projects, damaged) = check_projects(backend, &mut orphans, report).await?;
    for id in orphans {
        // A project can be deleted before its row is read. An unreadable repository exists.
        if backend.repositories.exists(&id).await.unwrap_or(true) {
            let line = format!("repository {id:?}: it belongs to no project");
            directories.problems.push(line);
        }
    }
    directories.problems.sort_unstable();
    let mut begin = |subject| {
        let (done, total) = (0, None);
        report(DoctorEvent { subject, done, total });
        Check::new(subject)
    };
    Ok(Examination {
        projects: projects.checked,
        checks: vec![
            projects,
            directories,
            check_tables(backend, begin("tables of the database")).await?,
            check_storage(backend, begin("object storages")).await?,
            check_uploads(backend, begin("uploads")).await?,
            check_avatars(backend, begin("avatars")).await?,
            check_archives(backend, begin("archives of groups")).await?,
            check_blobs(backend, begin("blobs of container images")).await?,
            check_packages(backend, begin("files of packages")).await?,
            check_ref_updates(backend, deserted, &damaged, begin("unfinished ref updates")).await?,
            check_keys(backend, begin("encrypted columns")).await?,
            check_access(data_dir, begin("files and directories of the data directory")).await?,
            check_disk(backend, begin("disks")).await?,
        ],
    })
}

/// Checks the repositories of all projects, and removes them from `orphans`. Returns also the projects with damaged
/// repositories.
async fn check_projects(
    backend: &Backend,
    orphans: &mut HashSet<RepositoryId>,
    report: DoctorReport<'_>,
) -> Result<(Check, HashSet<i64>)> {
    let mut check = Check::new("projects");
    let mut damaged = HashSet::new();
    let total = projects::Entity::find().count(backend.database.read()).await?;
    let mut after = 0;
    loop {
        let batch = projects::Entity::find()
            .filter(projects::Column::Id.gt(after))
            .find_also_related(namespaces::Entity)
            .order_by_asc(projects::Column::Id)
            .limit(BATCH)
            .all(backend.database.read())
            .await?;
        let Some((last, _)) = batch.last() else {
            return Ok((check, damaged));
        };
        after = last.id;
        for (project, namespace) in batch {
            let (subject, done) = (check.subject, check.checked);
            let total = Some(total.max(done));
            report(DoctorEvent { subject, done, total });
            check.checked += 1;
            orphans.remove(&RepositoryId::of_project(project.id));
            // A deletion in progress may have removed the repository already.
            if project.deletion_started_at.is_some() {
                continue;
            }
            let above = namespace.map(|namespace| namespace.full_path).unwrap_or_default();
            let name = format!("project {} ({above}/{})", project.id, project.path);
            let mut findings = check_project(backend, &project).await;
            if !findings.problems.is_empty() {
                // The project can have been deleted, or have another default branch, since its row was read.
                let current = projects::not_deleted().filter(projects::Column::Id.eq(project.id));
                let Some(current) = current.one(backend.database.read()).await? else {
                    continue;
                };
                // A fork or an import has no complete repository until its job has ended.
                if WAITING.contains(&current.import_status) {
                    continue;
                }
                if current.default_branch != project.default_branch
                    || current.import_status != project.import_status
                {
                    findings = check_project(backend, &current).await;
                }
            }
            if findings.damaged {
                damaged.insert(project.id);
            }
            let lines = findings
                .problems
                .into_iter()
                .map(|problem| format!("{name}: {problem}"));
            check.problems.extend(lines);
        }
    }
}

async fn check_blobs(backend: &Backend, check: Check) -> Result<Check> {
    let found = registry::integrity::check(backend).await?;
    Ok(Check {
        checked: found.blobs,
        problems: found.problems,
        ..check
    })
}

async fn check_packages(backend: &Backend, check: Check) -> Result<Check> {
    let found = packages::integrity::check(backend).await?;
    Ok(Check {
        checked: found.files,
        problems: found.problems,
        ..check
    })
}

/// Finds ref updates of killed servers. A server does not recover those of damaged repositories.
async fn check_ref_updates(
    backend: &Backend,
    deserted: bool,
    damaged: &HashSet<i64>,
    mut check: Check,
) -> Result<Check> {
    let abandoned = now() - MAX_CHANGE_AGE;
    for intent in ref_updates::pending(backend.database.read(), None).await? {
        check.checked += 1;
        if deserted || intent.created_at < abandoned {
            let advice = match damaged.contains(&intent.project_id) {
                true => {
                    "restore the repository from a backup (docs/BACKUP.md), and then restart the server to recover it"
                }
                false => "restart the server to recover it",
            };
            check.problems.push(format!(
                "project {}: the ref update announced at {} was never recorded; {advice}",
                intent.project_id,
                intent.created_at.to_rfc3339()
            ));
        }
    }
    Ok(check)
}

/// Finds values that do not use the current key.
async fn check_keys(backend: &Backend, mut check: Check) -> Result<Check> {
    for survey in key_rotation::survey(backend).await? {
        check.checked += 1;
        let column = format!("{}.{}", survey.column.table(), survey.column.column());
        if survey.former > 0 {
            check.problems.push(format!(
                "{column}: a former encryption key encrypts {}; `holdfast admin rotate-key` finishes the rotation",
                values(survey.former)
            ));
        }
        if let Some(first) = survey.unreadable.first() {
            check.problems.push(format!(
                "{column}: no key decrypts {}, such as that of the row {} ({}); restore the key file that \
                 contains their key, \
                 or remove them with `holdfast admin rotate-key --discard-unreadable`",
                values(survey.unreadable.len() as u64),
                first.id,
                first.cause
            ));
        }
    }
    Ok(check)
}

/// A number of values in words.
fn values(count: u64) -> String {
    match count {
        1 => "1 value".to_owned(),
        count => format!("{count} values"),
    }
}

/// Checks that enough disk space is left.
async fn check_disk(backend: &Backend, mut check: Check) -> Result<Check> {
    let space = DiskMonitor::of_instance(backend)
        .space()
        .await
        .map_err(Error::internal)?;
    let low = backend.instance.low_disk_bytes;
    check.checked = 1;
    if space.state(low) != SpaceState::Sufficient {
        check.problems.push(format!(
            "disk: {} MiB are free, less than the {} MiB of low_disk_bytes; delete files, or move the data directory to a \
             larger disk",
            space.free >> 20,
            low >> 20
        ));
    }
    Ok(check)
}

/// Checks that other users of the machine cannot access the data directory or a part of it.
async fn check_access(data_dir: &Path, mut check: Check) -> Result<Check> {
    let found = data_directory::examine(data_dir).await.map_err(Error::internal)?;
    let paths: Vec<String> = found
        .examples
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let directory = data_dir.display();
    check.checked = found.examined;
    if found.accessible > 0 {
        check.problems.push(format!(
            "data directory {directory}: other users can access {} of its files and directories, such as {}; a running \
             server corrects this within a day, and `chmod -R go= {directory}` at once",
            found.accessible,
            paths.join(", ")
        ));
    }
    Ok(check)
}

/// Result of the check of one project.
#[derive(Default)]
struct ProjectFindings {
    problems: Vec<String>,
    /// Whether the repository is missing or cannot be read completely.
    damaged: bool,
}

async fn check_project(backend: &Backend, project: &projects::Model) -> ProjectFindings {
    let mut findings = ProjectFindings::default();
    if let Err(error) = check_repository(backend, project, &mut findings).await {
        findings.damaged = true;
        findings.problems.push(error.to_string());
    }
    findings
}

async fn check_repository(
    backend: &Backend,
    project: &projects::Model,
    findings: &mut ProjectFindings,
) -> git::Result<()> {
    let id = RepositoryId::of_project(project.id);
    if !backend.repositories.exists(&id).await? {
        findings.damaged = true;
        findings.problems.push("its repository is missing".to_owned());
        return Ok(());
    }
    let repository = backend.repositories.repository(&id);
    let problems = &mut findings.problems;
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
    let broken = repository.fsck().await?;
    findings.damaged |= !broken.is_empty();
    problems.extend(broken.into_iter().map(|line| format!("git fsck: {line}")));
    Ok(())
}
