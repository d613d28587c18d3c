//! Commit statuses reported by external systems. Each is a job of a pipeline, whose status is computed from
//! all its jobs.

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    IntoActiveModel, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use storage::entities::ci_jobs::{self, ActiveModel, Column, EXTERNAL, Entity, Model, PipelineStatus};
use storage::entities::pipelines::{self, PipelineSource};
use storage::entities::{now, users};

use crate::code::repository_access;
use crate::delivery::access::{check_can_create, check_can_read};
use crate::delivery::pipelines::status::{delete_replaced_jobs, job_changed, update_from_jobs};
use crate::delivery::pipelines::{NewPipeline, PipelineRef, check_ref, insert, resolve_ref};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;
use crate::spaces::projects;

/// Default name of a status.
const DEFAULT_NAME: &str = "default";

/// Maximum distinct status names of a pipeline.
const MAX_NAMES: usize = 1000;

/// A status with its related rows.
#[derive(Debug, Clone)]
pub struct CommitStatusDetail {
    /// The status.
    pub job: Model,
    /// Its pipeline.
    pub pipeline: pipelines::Model,
    /// The user who reported it, unless deleted.
    pub reporter: Option<users::Model>,
}

/// Filter of commit statuses.
#[derive(Debug, Clone, Default)]
pub struct CommitStatusFilter {
    /// Branch or tag.
    pub ref_name: Option<String>,
    /// Stage.
    pub stage: Option<String>,
    /// Name of the status.
    pub name: Option<String>,
    /// ID of the pipeline.
    pub pipeline_id: Option<i64>,
    /// Whether replaced statuses are included.
    pub all: bool,
}

/// A status report of an external system.
#[derive(Debug, Clone)]
pub struct StatusReport {
    /// The status.
    pub status: PipelineStatus,
    /// The branch or tag.
    pub ref_name: Option<String>,
    /// Name of the status.
    pub name: Option<String>,
    /// URL with details.
    pub target_url: Option<String>,
    /// Description of the status.
    pub description: Option<String>,
    /// Code coverage, in percent.
    pub coverage: Option<f64>,
    /// ID of the pipeline.
    pub pipeline_id: Option<i64>,
}

/// Returns a page of the statuses of a commit, oldest first.
///
/// # Errors
/// Returns `Error::NotFound` if the commit does not exist. Returns `Error::Forbidden` if the caller may not
/// read pipelines.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    filter: CommitStatusFilter,
    page: &PageRequest,
) -> Result<Page<CommitStatusDetail>> {
    // A missing repository is reported before missing permissions.
    let repository = repository_access::repository(backend, access)?;
    check_can_read(access)?;
    let sha = repository.resolve_commit(revision).await?;
    let mut of_commit = pipelines::of_project(access.project.id)
        .select_only()
        .column(pipelines::Column::Id)
        .filter(pipelines::Column::Sha.eq(sha.to_string()));
    if let Some(name) = filter.ref_name {
        of_commit = of_commit.filter(pipelines::Column::RefName.eq(name));
    }
    if let Some(id) = filter.pipeline_id {
        of_commit = of_commit.filter(pipelines::Column::Id.eq(id));
    }
    let mut query = Entity::find()
        .filter(Column::PipelineId.in_subquery(of_commit.into_query()))
        .order_by_asc(Column::Id);
    if !filter.all {
        query = query.filter(Column::Retried.eq(false));
    }
    if let Some(stage) = filter.stage {
        query = query.filter(Column::Stage.eq(stage));
    }
    if let Some(name) = filter.name {
        query = query.filter(Column::Name.eq(name));
    }
    let db = backend.database.read();
    let page = page_of(db, query, page).await?;
    Ok(Page {
        items: load_details(db, page.items).await?,
        rest: page.rest,
    })
}

/// Loads the related rows of a whole page. Rows deleted meanwhile are left out.
async fn load_details(db: &impl ConnectionTrait, jobs: Vec<Model>) -> Result<Vec<CommitStatusDetail>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let found = pipelines::Entity::find()
        .filter(pipelines::Column::Id.is_in(jobs.iter().map(|job| job.pipeline_id)))
        .all(db)
        .await?;
    let found: HashMap<i64, _> = found.into_iter().map(|one| (one.id, one)).collect();
    let users_by_id = users::Entity::find()
        .filter(users::Column::Id.is_in(jobs.iter().filter_map(|job| job.user_id)))
        .all(db)
        .await?;
    let users_by_id: HashMap<i64, _> = users_by_id.into_iter().map(|user| (user.id, user)).collect();
    let rows = jobs.into_iter().filter_map(|job| {
        Some(CommitStatusDetail {
            pipeline: found.get(&job.pipeline_id)?.clone(),
            reporter: job.user_id.and_then(|id| users_by_id.get(&id).cloned()),
            job,
        })
    });
    Ok(rows.collect())
}

/// Records a status report for a commit.
///
/// # Errors
/// Returns `Error::NotFound` if the commit, pipeline or ref does not exist. Returns
/// `Error::InvalidAttributes` if an attribute is invalid or the status cannot follow the previous one. Fails
/// like [`check_can_create`] and [`check_ref`].
pub async fn report(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    report: StatusReport,
) -> Result<CommitStatusDetail> {
    check_can_create(access)?;
    check(&report)?;
    let user = access.caller.signed_in()?;
    let commit = repository_access::repository(backend, access)?
        .resolve_commit(revision)
        .await?;
    let sha = commit.to_string();
    let reference = reference(backend, access, commit, &report).await?;
    // The report may trigger an auto-merge into the branch.
    let affected = affected_ref(backend, access, &sha, &reference, &report).await?;
    if let Some(affected) = &affected {
        check_ref(backend, access, affected).await?;
    }
    let project_id = access.project.id;
    let (job, pipeline) = backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, project_id).await?;
            let existing = match report.pipeline_id {
                Some(id) => {
                    let named = pipelines::lock(transaction, project_id, id).await?;
                    let named = named.filter(|one| one.sha == sha && reference.matches(one));
                    Some(named.ok_or_else(|| Error::not_found("Pipeline"))?)
                }
                // A pipeline of another ref may be newer than the check.
                None => match &affected {
                    Some(affected) => {
                        let checked = Some(affected.branch_or_tag());
                        pipelines::newest(transaction, project_id, &sha, checked).await?
                    }
                    None => None,
                },
            };
            let pipeline = match (existing, reference) {
                (Some(pipeline), _) => pipeline,
                (None, ReportRef::There(reference)) => {
                    let new = NewPipeline {
                        project_id,
                        reference,
                        source: PipelineSource::External,
                        user_id: user.id,
                        variables: Vec::new(),
                        trigger_id: None,
                        schedule: None,
                    };
                    insert(backend, transaction, new).await?
                }
                (None, _) => return Err(Error::attribute("ref", "The branch or tag does not exist")),
            };
            let job = upsert(transaction, &pipeline, &report, user.id).await?;
            let pipeline = update_from_jobs(transaction, pipeline, Some(user.id)).await?;
            Ok::<_, Error>((job, pipeline))
        })
        .await?;
    Ok(CommitStatusDetail {
        job,
        pipeline,
        reporter: Some(user.clone()),
    })
}

/// The ref of a report.
enum ReportRef {
    /// An existing ref, for which a new pipeline can be created.
    There(PipelineRef),
    /// The name of a deleted branch or tag that still has pipelines.
    Gone(String),
    /// The ref of the given pipeline.
    Any,
}

impl ReportRef {
    /// Returns whether a pipeline belongs to the ref. A branch and a tag can have the same name.
    fn matches(&self, pipeline: &pipelines::Model) -> bool {
        match self {
            Self::There(reference) => reference.name == pipeline.ref_name && reference.tag == pipeline.tag,
            Self::Gone(name) => *name == pipeline.ref_name,
            Self::Any => true,
        }
    }
}

/// Returns the ref whose pipeline a report changes, if there is such a pipeline.
async fn affected_ref(
    backend: &Backend,
    access: &ProjectAccess,
    sha: &str,
    reported: &ReportRef,
    report: &StatusReport,
) -> Result<Option<PipelineRef>> {
    let (db, project_id) = (backend.database.read(), access.project.id);
    let found = match (reported, report.pipeline_id) {
        (ReportRef::There(reference), _) => return Ok(Some(reference.clone())),
        (_, Some(id)) => {
            let named = pipelines::of_project(project_id).filter(pipelines::Column::Id.eq(id));
            named.one(db).await?
        }
        (ReportRef::Gone(name), None) => newest_of_deleted_ref(db, project_id, sha, name).await?,
        (ReportRef::Any, None) => None,
    };
    Ok(found.as_ref().map(PipelineRef::of))
}

/// Returns the newest pipeline of a commit for a branch or tag that was deleted.
async fn newest_of_deleted_ref(
    db: &impl ConnectionTrait,
    project_id: i64,
    sha: &str,
    name: &str,
) -> Result<Option<pipelines::Model>> {
    let found = pipelines::of_project(project_id)
        .filter(pipelines::Column::Sha.eq(sha))
        .filter(pipelines::Column::RefName.eq(name))
        .order_by_desc(pipelines::Column::Id);
    Ok(found.one(db).await?)
}

/// Returns the given ref, else the ref of the commit's newest pipeline, else a branch that contains the
/// commit.
async fn reference(
    backend: &Backend,
    access: &ProjectAccess,
    commit: git::Oid,
    report: &StatusReport,
) -> Result<ReportRef> {
    let sha = commit.to_string();
    if let Some(name) = report.ref_name.as_deref().filter(|name| !name.trim().is_empty()) {
        return Ok(match resolve_ref(backend, access, name).await? {
            Some(found) => ReportRef::There(PipelineRef { sha, ..found }),
            None => ReportRef::Gone(name.to_owned()),
        });
    }
    let db = backend.database.read();
    let newest = pipelines::newest(db, access.project.id, &sha, None).await?;
    if report.pipeline_id.is_some() || newest.is_some() {
        return Ok(newest.map_or(ReportRef::Any, |one| match report.pipeline_id {
            Some(_) => ReportRef::Any,
            None => ReportRef::There(PipelineRef::of(&one)),
        }));
    }
    let branches = repository_access::open(backend, access)
        .containing(commit)
        .await?
        .branches;
    let default = access.project.default_branch.as_ref();
    let branch = branches
        .iter()
        .find(|name| Some(*name) == default)
        .or(branches.first());
    let name = branch.ok_or_else(|| Error::not_found("References for commit"))?;
    Ok(ReportRef::There(PipelineRef {
        name: name.clone(),
        tag: false,
        sha,
    }))
}

/// Updates the unfinished status of the same name, or replaces the finished one. A changed status updates the
/// jobs and pipelines that depend on it.
async fn upsert(
    transaction: &DatabaseTransaction,
    pipeline: &pipelines::Model,
    report: &StatusReport,
    user_id: i64,
) -> Result<Model> {
    let name = report
        .name
        .as_deref()
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let name = name.unwrap_or(DEFAULT_NAME);
    let existing = ci_jobs::current(transaction, pipeline.id).await?;
    let (same, others): (Vec<Model>, Vec<Model>) = existing
        .into_iter()
        .partition(|job| job.name == name && job.stage == EXTERNAL);
    let old = same.into_iter().next_back();
    let at = now();
    let before = old.as_ref().map(|job| (job.id, job.status));
    let mut row = match old {
        Some(job) if !job.status.is_finished() => {
            if (job.status, report.status) == (PipelineStatus::Running, PipelineStatus::Pending) {
                let text = "cannot transition via \"enqueue\"";
                return Err(Error::attribute("status", text));
            }
            job.into_active_model()
        }
        old => {
            if old.is_none() && others.len() >= MAX_NAMES {
                let text = format!("Maximum number of jobs in a pipeline ({MAX_NAMES}) exceeded");
                return Err(Error::attribute("base", text));
            }
            if let Some(old) = old {
                let mut row = old.into_active_model();
                row.retried = Set(true);
                row.updated_at = Set(at);
                row.update(transaction).await?;
            }
            ActiveModel {
                project_id: Set(pipeline.project_id),
                pipeline_id: Set(pipeline.id),
                name: Set(name.to_owned()),
                stage: Set(EXTERNAL.to_owned()),
                allow_failure: Set(false),
                retried: Set(false),
                created_at: Set(at),
                ..Default::default()
            }
        }
    };
    let is_new = row.id.is_not_set();
    let began = is_new || before.map(|(_, status)| status) != Some(report.status);
    if began && report.status == PipelineStatus::Running {
        row.started_at = Set(Some(at));
    }
    if began && report.status.is_finished() {
        row.finished_at = Set(Some(at));
    }
    row.status = Set(report.status);
    row.user_id = Set(Some(user_id));
    row.updated_at = Set(at);
    if let Some(url) = &report.target_url {
        row.target_url = Set(Some(url.clone()).filter(|url| !url.is_empty()));
    }
    if let Some(text) = &report.description {
        row.description = Set(Some(text.clone()));
    }
    if report.coverage.is_some() {
        row.coverage = Set(report.coverage);
    }
    let job = match is_new {
        true => row.insert(transaction).await?,
        false => row.update(transaction).await?,
    };
    if began {
        let replaced = before.map(|(id, _)| id).filter(|_| is_new);
        job_changed(transaction, pipeline, &job, replaced, Some(user_id)).await?;
        if replaced.is_some() {
            delete_replaced_jobs(transaction, pipeline.id).await?;
        }
    }
    Ok(job)
}

/// Rejects invalid attributes.
fn check(report: &StatusReport) -> Result<()> {
    let url = report.target_url.as_deref().unwrap_or_default();
    let lower = url.to_ascii_lowercase();
    if !url.is_empty() && !lower.starts_with("http://") && !lower.starts_with("https://") {
        let text = "is blocked: Only allowed schemes are http, https";
        return Err(Error::attribute("target_url", text));
    }
    if report
        .coverage
        .is_some_and(|coverage| !(0.0..=100.0).contains(&coverage))
    {
        return Err(Error::attribute("coverage", "must be between 0 and 100"));
    }
    Ok(())
}
