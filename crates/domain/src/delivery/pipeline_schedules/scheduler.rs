//! Runs schedules when they are due or played.
//!
//! Every few seconds every node looks for due schedules (`jobs::scheduler`) and enqueues a job for each
//! (`jobs::run_schedule`). The job is deduplicated across nodes. A run is one transaction that locks the
//! project and the schedule, creates the pipeline and stores the next time. It is therefore atomic, and a
//! concurrent second run finds a later next time. A schedule that became due while no node was running runs
//! once. If all attempts of the job fail, the next search skips the run: otherwise the schedule would remain due, and a
//! new job would be enqueued for it at once.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel, QuerySelect,
};
use storage::entities::pipeline_schedules::{self, Entity, Model};
use storage::entities::pipelines::{PipelineSource, exists_for_run};
use storage::entities::users::{self, UserState};
use storage::entities::{now, projects};
use storage::jobs::{self, Job, JobFailure};

use super::{find, variables};
use crate::delivery::access::check_can_create;
use crate::delivery::jobs::run_schedule::RunSchedule;
use crate::delivery::pipelines::{self, NewPipeline, PipelineRef, check_ref, ref_not_found, resolve_ref};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::cron::Recurrence;
use crate::kernel::error::{Error, Result};

/// Maximum number of schedules enqueued at once; the longest overdue come first.
const MAX_ENQUEUED: u64 = 1000;

/// Action for a due schedule.
enum DueAction {
    /// Create a pipeline with this user as the creator.
    Run(PipelineRef, i64),
    /// Skip this run; the reason is logged.
    Skip(&'static str),
    /// Deactivate the schedule, because its owner is missing or cannot run it.
    End,
}

/// Creates a pipeline of a schedule immediately, with the caller as the creator. The next run is unchanged.
///
/// # Errors
/// Returns `NotFound` if the schedule does not exist and a validation error if its ref does not exist.
/// Returns `Forbidden` if the caller cannot create pipelines for it.
pub async fn play(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<()> {
    check_can_create(access)?;
    let user_id = access.caller.signed_in()?.id;
    let schedule = find(backend.database.read(), access, id).await?;
    let reference = resolve_ref(backend, access, &schedule.ref_name).await?;
    let reference = reference.ok_or_else(ref_not_found)?;
    check_ref(backend, access, &reference).await?;
    let new = new(backend, &schedule, reference, user_id, None).await?;
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, &schedule).await?.ok_or_else(super::not_found)?;
            pipelines::insert(backend, transaction, new).await?;
            Ok(())
        })
        .await
}

/// Runs a schedule if it is due, and stores the next time. A schedule that is not due, inactive or deleted is
/// skipped.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails; the schedule is then still due.
pub async fn run_due(backend: &Backend, id: i64) -> Result<()> {
    let Some(schedule) = find_due(backend, id).await? else {
        return Ok(());
    };
    let outcome = due_action(backend, &schedule).await?;
    let time = Some(schedule.next_run_at);
    let new = match &outcome {
        DueAction::Run(reference, user_id) => {
            Some(new(backend, &schedule, reference.clone(), *user_id, time).await?)
        }
        _ => None,
    };
    finish(backend, &schedule, outcome, new).await
}

/// Returns a schedule if it is due.
async fn find_due(backend: &Backend, id: i64) -> Result<Option<Model>> {
    let found = Entity::find_by_id(id).one(backend.database.read()).await?;
    Ok(found.filter(|found| found.active && found.next_run_at <= now()))
}

/// Stores the next time of a due schedule and its pipeline, if it has one.
async fn finish(
    backend: &Backend,
    schedule: &Model,
    outcome: DueAction,
    new: Option<NewPipeline>,
) -> Result<()> {
    let id = schedule.id;
    backend
        .database
        .transaction(async |transaction| {
            // A concurrent run or update has changed the schedule. If it is still due, the next search finds
            // it.
            let locked = lock(transaction, schedule).await?;
            let Some(locked) = locked.filter(|locked| locked == schedule) else {
                return Ok(());
            };
            let next = Recurrence::parse(&locked.cron, &locked.cron_timezone);
            let next = next.and_then(|recurrence| recurrence.next_after(now()));
            let mut row = locked.into_active_model();
            match (outcome, next) {
                (DueAction::End, _) | (_, None) => {
                    tracing::info!(schedule = id, "deactivated a pipeline schedule");
                    row.active = Set(false);
                    row.updated_at = Set(now());
                }
                (DueAction::Skip(reason), Some(next)) => {
                    tracing::warn!(schedule = id, reason, "skipped a run of a pipeline schedule");
                    row.next_run_at = Set(next);
                }
                (DueAction::Run(..), Some(next)) => row.next_run_at = Set(next),
            }
            let locked = row.update(transaction).await?;
            let Some(new) = new.filter(|_| locked.active) else {
                return Ok(());
            };
            // After the clock was set back, the schedule is due again at times at which it has run.
            match exists_for_run(transaction, id, schedule.next_run_at).await? {
                true => tracing::info!(schedule = id, "skipped a repeated run of a pipeline schedule"),
                false => drop(pipelines::insert(backend, transaction, new).await?),
            }
            Ok(())
        })
        .await
}

/// Enqueues a job for each due schedule whose job neither waits nor runs, and returns their number. Skips the runs
/// whose jobs failed permanently, for example because their runners were lost.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn enqueue_due(backend: &Backend) -> Result<usize> {
    let due =
        pipeline_schedules::due(backend.database.read(), RunSchedule::KIND, now(), MAX_ENQUEUED).await?;
    if due.is_empty() {
        return Ok(0);
    }
    let due = due.into_iter().map(|(schedule_id, next_run_at)| RunSchedule {
        schedule_id,
        next_run_at: Some(next_run_at),
    });
    let due: Vec<RunSchedule> = due.collect();
    let keys = due.iter().filter_map(Job::dedup_key).collect();
    let failed: Vec<RunSchedule> = jobs::failed_with_keys(backend.database.read(), keys).await?;
    let failed: HashSet<RunSchedule> = failed.into_iter().collect();
    let mut enqueued = 0;
    for job in due {
        if failed.contains(&job) {
            skip_run(backend, &job).await?;
            continue;
        }
        jobs::enqueue(backend.database.write(), &job)
            .await
            .map_err(Error::internal)?;
        enqueued += 1;
    }
    Ok(enqueued)
}

/// Skips the run of a job that failed permanently, unless the schedule has changed.
async fn skip_run(backend: &Backend, job: &RunSchedule) -> Result<()> {
    let due = find_due(backend, job.schedule_id).await?;
    match due.filter(|due| Some(due.next_run_at) == job.next_run_at) {
        Some(schedule) => finish(backend, &schedule, DueAction::Skip("all attempts failed"), None).await,
        None => Ok(()),
    }
}

/// Corrects the next times of active schedules after the clock of the system was set back, and returns the number of
/// changed schedules. Otherwise a schedule would not run until the clock shows the stored time again.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn correct_times(backend: &Backend) -> Result<usize> {
    let instant = now();
    let later = pipeline_schedules::after(backend.database.read(), instant).await?;
    let mut corrected = 0;
    for schedule in later {
        let next = Recurrence::parse(&schedule.cron, &schedule.cron_timezone)
            .and_then(|recurrence| recurrence.next_after(instant));
        if let Some(next) = next.filter(|next| *next < schedule.next_run_at) {
            pipeline_schedules::set_earlier(backend.database.write(), &schedule, next).await?;
            corrected += 1;
        }
    }
    Ok(corrected)
}

/// Determines the action for a due schedule.
async fn due_action(backend: &Backend, schedule: &Model) -> Result<DueAction> {
    let owner = match schedule.owner_id {
        Some(id) => users::Entity::find_by_id(id).one(backend.database.read()).await?,
        None => None,
    };
    let acts = |owner: &users::Model| owner.state == UserState::Active && owner.deletion_started_at.is_none();
    let Some(owner) = owner.filter(acts) else {
        return Ok(DueAction::End);
    };
    let user_id = owner.id;
    let project = schedule.project_id.to_string();
    let access = match ProjectAccess::find(backend, Caller::user(owner), &project).await {
        Ok(access) => access,
        Err(Error::NotFound(_)) => return Ok(DueAction::Skip("the owner cannot see the project")),
        Err(error) => return Err(error),
    };
    match check_can_create(&access) {
        Err(Error::Forbidden(_)) => return Ok(DueAction::Skip("the owner cannot create pipelines")),
        other => other?,
    }
    let Some(reference) = resolve_ref(backend, &access, &schedule.ref_name).await? else {
        return Ok(DueAction::Skip("the branch or tag does not exist"));
    };
    match check_ref(backend, &access, &reference).await {
        Err(Error::Forbidden(_)) => Ok(DueAction::Skip("the owner cannot use the protected branch")),
        other => other.map(|()| DueAction::Run(reference, user_id)),
    }
}

async fn new(
    backend: &Backend,
    schedule: &Model,
    reference: PipelineRef,
    user_id: i64,
    time: Option<DateTime<Utc>>,
) -> Result<NewPipeline> {
    Ok(NewPipeline {
        project_id: schedule.project_id,
        reference,
        source: PipelineSource::Schedule,
        user_id,
        variables: variables::all(backend, schedule.id).await?,
        trigger_id: None,
        schedule: Some((schedule.id, time)),
    })
}

/// Locks the project and then the schedule; returns `None` if either was deleted.
async fn lock(transaction: &DatabaseTransaction, schedule: &Model) -> Result<Option<Model>> {
    if projects::lock_for_insert(transaction, schedule.project_id)
        .await?
        .is_none()
    {
        return Ok(None);
    }
    let found = Entity::find_by_id(schedule.id).lock_exclusive();
    Ok(found.one(transaction).await?)
}

/// Runs the job. A schedule that is not due is skipped.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: RunSchedule) -> Result<(), JobFailure> {
    Ok(run_due(&backend, job.schedule_id).await?)
}
