//! Evidence of releases: a snapshot of a release, its milestones and their issues. A job collects the first evidence of
//! a release at its date, and further ones on request.
//!
//! Everyone who can read the code can read the evidence. So it contains issues and milestones only if all readers of
//! the project can see them, and no confidential issues.

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    FromQueryResult, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use storage::entities::projects::FeatureAccess;
use storage::entities::release_evidences::{self, Column, Entity};
use storage::entities::{issues, milestones, now, projects, release_milestones, releases};
use storage::jobs::{self, JobFailure};

use super::jobs::collect_release_evidence::CollectReleaseEvidence;
use super::rules;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum number of evidences of a release.
const MAX_EVIDENCES: u64 = 100;
/// Maximum number of issues in an evidence.
const MAX_ISSUES: u64 = 1000;

#[derive(Debug, Serialize)]
struct Summary {
    release: ReleasePart,
}

#[derive(Debug, Serialize)]
struct ReleasePart {
    id: i64,
    tag_name: String,
    name: String,
    description: Option<String>,
    created_at: DateTime<Utc>,
    released_at: DateTime<Utc>,
    project: ProjectPart,
    milestones: Vec<MilestonePart>,
}

#[derive(Debug, Serialize)]
struct ProjectPart {
    id: i64,
    name: String,
    description: Option<String>,
    created_at: DateTime<Utc>,
}

#[derive(Debug, Serialize)]
struct MilestonePart {
    id: i64,
    iid: i64,
    title: String,
    description: Option<String>,
    state: &'static str,
    created_at: DateTime<Utc>,
    due_date: Option<chrono::NaiveDate>,
    issues: Vec<IssuePart>,
}

#[derive(Debug, Serialize)]
struct IssuePart {
    id: i64,
    iid: i64,
    title: String,
    state: &'static str,
    created_at: DateTime<Utc>,
    due_date: Option<chrono::NaiveDate>,
}

/// An issue of a milestone. The descriptions of all issues would need a gigabyte.
#[derive(Debug, FromQueryResult)]
struct IssueRow {
    id: i64,
    iid: i64,
    title: String,
    state: issues::IssueState,
    milestone_id: Option<i64>,
    created_at: DateTime<Utc>,
    due_date: Option<chrono::NaiveDate>,
}

/// Returns the content of an evidence, as JSON.
///
/// # Errors
/// Returns `Error::Forbidden` if the releases or the code of the project are not available to the caller, and
/// `Error::NotFound` if the tag has no release with this evidence.
pub async fn open(backend: &Backend, access: &ProjectAccess, tag: &str, id: i64) -> Result<String> {
    rules::check_code(access)?;
    let db = backend.database.read();
    let release = rules::find(db, access, tag).await?;
    let found = Entity::find_by_id(id)
        .filter(Column::ReleaseId.eq(release.id))
        .one(db)
        .await?;
    Ok(found.ok_or_else(rules::not_found)?.summary)
}

/// Enqueues the collection of another evidence.
///
/// # Errors
/// Returns `Error::NotFound` if the tag has no release. Returns `Error::Rejected` if the release has `MAX_EVIDENCES`
/// evidences already.
pub async fn request(backend: &Backend, access: &ProjectAccess, tag: &str) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let release = rules::find(transaction, access, tag).await?;
            if count(transaction, release.id).await? >= MAX_EVIDENCES {
                let text = format!("The maximum number of evidences ({MAX_EVIDENCES}) is reached");
                return Err(Error::Rejected(text.into()));
            }
            let job = CollectReleaseEvidence {
                release_id: release.id,
                requested_at: Some(now()),
                scheduled_at: None,
            };
            jobs::enqueue(transaction, &job).await.map_err(Error::internal)
        })
        .await
}

/// Enqueues the collection of the first evidence of a release at its date. A historical release gets none.
pub(super) async fn schedule_first(
    transaction: &DatabaseTransaction,
    release: &releases::Model,
) -> Result<()> {
    if rules::is_historical(release) {
        return Ok(());
    }
    let scheduled_at = now();
    let at = release.released_at.max(scheduled_at);
    let enqueued = jobs::enqueue_at(transaction, &first_collection(release, scheduled_at), at).await;
    enqueued.map_err(Error::internal)
}

/// Enqueues the collection of the first evidence after a change of the date, unless this evidence was collected
/// already.
pub(super) async fn reschedule_first(
    transaction: &DatabaseTransaction,
    former: &releases::Model,
    release: &releases::Model,
) -> Result<()> {
    if former.released_at == release.released_at {
        return Ok(());
    }
    // The job waits until the evidence is collected. Only a historical release has neither.
    let job = first_collection(release, now());
    match rules::is_historical(former) || jobs::is_scheduled(transaction, &job).await? {
        true => schedule_first(transaction, release).await,
        false => Ok(()),
    }
}

fn first_collection(release: &releases::Model, scheduled_at: DateTime<Utc>) -> CollectReleaseEvidence {
    CollectReleaseEvidence {
        release_id: release.id,
        requested_at: None,
        scheduled_at: Some(scheduled_at),
    }
}

/// Runs a job of this kind.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: CollectReleaseEvidence) -> Result<(), JobFailure> {
    Ok(collect(&backend, &job).await?)
}

async fn collect(backend: &Backend, job: &CollectReleaseEvidence) -> Result<()> {
    let db = backend.database.read();
    let Some(release) = releases::Entity::find_by_id(job.release_id).one(db).await? else {
        return Ok(());
    };
    let summary = summary(db, &release).await?;
    let text = serde_json::to_string(&summary).map_err(Error::internal)?;
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes collections. The date may have changed.
            let locked = releases::Entity::find_by_id(job.release_id).lock_exclusive();
            let Some(release) = locked.one(transaction).await? else {
                return Ok(());
            };
            let is_outdated = rules::is_upcoming(&release, now()) || rules::is_historical(&release);
            if job.requested_at.is_none() && is_outdated {
                return schedule_first(transaction, &release).await;
            }
            // An evidence that was requested before the date is not the evidence of the date.
            let since = job.requested_at.unwrap_or_else(|| {
                let scheduled_at = job.scheduled_at.unwrap_or_default();
                scheduled_at.max(release.released_at)
            });
            let collected = Entity::find()
                .filter(Column::ReleaseId.eq(release.id))
                .filter(Column::CollectedAt.gte(since));
            // A job can run twice.
            if collected.count(transaction).await? > 0
                || count(transaction, release.id).await? >= MAX_EVIDENCES
            {
                return Ok(());
            }
            let row = release_evidences::ActiveModel {
                release_id: Set(release.id),
                sha256: Set(hex::encode(Sha256::digest(&text))),
                summary: Set(text),
                collected_at: Set(now()),
                ..Default::default()
            };
            row.insert(transaction).await?;
            Ok(())
        })
        .await
}

async fn count(db: &impl ConnectionTrait, release_id: i64) -> Result<u64> {
    Ok(Entity::find()
        .filter(Column::ReleaseId.eq(release_id))
        .count(db)
        .await?)
}

async fn summary(db: &impl ConnectionTrait, release: &releases::Model) -> Result<Summary> {
    let project = projects::Entity::find_by_id(release.project_id).one(db).await?;
    let project = project.ok_or_else(rules::not_found)?;
    let is_open = |feature: FeatureAccess| feature == FeatureAccess::Enabled;
    let has_issues = is_open(project.issues_access_level);
    let milestones = match has_issues || is_open(project.merge_requests_access_level) {
        true => milestones_of(db, release, has_issues).await?,
        false => Vec::new(),
    };
    Ok(Summary {
        release: ReleasePart {
            id: release.id,
            tag_name: release.tag.clone(),
            name: release.name.clone(),
            description: release.description.clone(),
            created_at: release.created_at,
            released_at: release.released_at,
            project: ProjectPart {
                id: project.id,
                name: project.name,
                description: project.description,
                created_at: project.created_at,
            },
            milestones,
        },
    })
}

async fn milestones_of(
    db: &impl ConnectionTrait,
    release: &releases::Model,
    has_issues: bool,
) -> Result<Vec<MilestonePart>> {
    let rows = release_milestones::Entity::find()
        .find_also_related(milestones::Entity)
        .filter(release_milestones::Column::ReleaseId.eq(release.id))
        .order_by_asc(release_milestones::Column::MilestoneId)
        .all(db)
        .await?;
    let rows: Vec<milestones::Model> = rows.into_iter().filter_map(|(_, milestone)| milestone).collect();
    let issues = match has_issues {
        true => issues_of(db, release.project_id, &rows).await?,
        false => Vec::new(),
    };
    let parts = rows.into_iter().map(|milestone| MilestonePart {
        issues: issues
            .iter()
            .filter(|issue| issue.milestone_id == Some(milestone.id))
            .map(issue_part)
            .collect(),
        id: milestone.id,
        iid: milestone.iid,
        title: milestone.title,
        description: milestone.description,
        state: match milestone.state {
            milestones::MilestoneState::Active => "active",
            milestones::MilestoneState::Closed => "closed",
        },
        created_at: milestone.created_at,
        due_date: milestone.due_date,
    });
    Ok(parts.collect())
}

/// Returns the issues of the project in these milestones; those of other projects may be hidden from the readers.
async fn issues_of(
    db: &impl ConnectionTrait,
    project_id: i64,
    milestones: &[milestones::Model],
) -> Result<Vec<IssueRow>> {
    let ids = milestones.iter().map(|milestone| milestone.id);
    let rows = issues::Entity::find()
        .select_only()
        .columns([
            issues::Column::Id,
            issues::Column::Iid,
            issues::Column::Title,
            issues::Column::State,
            issues::Column::MilestoneId,
            issues::Column::CreatedAt,
            issues::Column::DueDate,
        ])
        .filter(issues::Column::ProjectId.eq(project_id))
        .filter(issues::Column::MilestoneId.is_in(ids))
        .filter(issues::Column::Confidential.eq(false))
        .order_by_asc(issues::Column::Id)
        .limit(MAX_ISSUES);
    Ok(rows.into_model::<IssueRow>().all(db).await?)
}

fn issue_part(issue: &IssueRow) -> IssuePart {
    IssuePart {
        id: issue.id,
        iid: issue.iid,
        title: issue.title.clone(),
        state: match issue.state {
            issues::IssueState::Opened => "opened",
            issues::IssueState::Closed => "closed",
        },
        created_at: issue.created_at,
        due_date: issue.due_date,
    }
}
