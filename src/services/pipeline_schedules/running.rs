//! Running schedules: when they are due, or when somebody plays one.
//!
//! Every node looks for those that are due every few seconds (`jobs::scheduler`) and enqueues a job for each
//! (`jobs::run_schedule`), of which there is one however many nodes look. What one run does is one transaction under the lock of
//! the project and of the schedule: the pipeline and the next time. So a run happens wholly or not at all, and whoever comes
//! second finds that the next time is another. What came due while no node was there is due when one is, once.

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel, QuerySelect,
};
use storage::entities::pipeline_schedules::{self, Entity, Model};
use storage::entities::pipelines::Source;
use storage::entities::users::{self, State};
use storage::entities::{now, projects};
use storage::jobs;

use super::{find, variables};
use crate::error::{Error, Result};
use crate::jobs::run_schedule::RunSchedule;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::authentication::Caller;
use crate::services::cron::Recurrence;
use crate::services::pipelines::{
    self, NewPipeline, Reference, refuse_maker, refuse_reference, resolve, unknown,
};

/// How many schedules are enqueued at once; those that wait longest come first.
const AT_ONCE: u64 = 1000;

/// What becomes of a schedule that is due.
enum Outcome {
    /// A pipeline in the name of this user.
    Run(Reference, i64),
    /// Nothing this time; why is logged.
    Skip(&'static str),
    /// Nothing any more: nobody is there in whose name it could run.
    End,
}

/// Makes a pipeline of a schedule at once, in the name of the caller. When it runs next stays.
///
/// # Errors
/// 404; 400 for a reference that is not there; 403 for who may not make pipelines for it.
pub async fn play(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<()> {
    refuse_maker(access)?;
    let user_id = access.caller.signed_in()?.id;
    let schedule = find(backend.database.read(), access, id).await?;
    let reference = resolve(backend, access, &schedule.ref_name).await?;
    let reference = reference.ok_or_else(unknown)?;
    refuse_reference(backend, access, &reference).await?;
    let new = new(backend, &schedule, reference, user_id, None).await?;
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, &schedule).await?.ok_or_else(super::missing)?;
            pipelines::insert(backend, transaction, new).await?;
            Ok(())
        })
        .await
}

/// Runs a schedule if it is due, and says when it is the next time. One that is not due, not active or gone is left alone.
///
/// # Errors
/// Whatever the database or the repository reports; then it is still due.
pub async fn run_due(backend: &Backend, id: i64) -> Result<()> {
    let found = Entity::find_by_id(id).one(backend.database.read()).await?;
    let Some(schedule) = found.filter(|found| found.active && found.next_run_at <= now()) else {
        return Ok(());
    };
    let outcome = outcome(backend, &schedule).await?;
    let time = Some(schedule.next_run_at);
    let new = match &outcome {
        Outcome::Run(reference, user_id) => {
            Some(new(backend, &schedule, reference.clone(), *user_id, time).await?)
        }
        _ => None,
    };
    backend
        .database
        .transaction(async |transaction| {
            // Somebody was faster, or has changed what it is to do: then it is looked for again.
            let locked = lock(transaction, &schedule).await?;
            let Some(locked) = locked.filter(|locked| *locked == schedule) else {
                return Ok(());
            };
            let next = Recurrence::read(&locked.cron, &locked.cron_timezone);
            let next = next.and_then(|recurrence| recurrence.next_after(now()));
            let mut row = locked.into_active_model();
            match (outcome, next) {
                (Outcome::End, _) | (_, None) => {
                    tracing::info!(schedule = id, "deactivated the pipeline schedule");
                    row.active = Set(false);
                    row.updated_at = Set(now());
                }
                (Outcome::Skip(reason), Some(next)) => {
                    tracing::warn!(schedule = id, reason, "skipped a scheduled pipeline");
                    row.next_run_at = Set(next);
                }
                (Outcome::Run(..), Some(next)) => row.next_run_at = Set(next),
            }
            let locked = row.update(transaction).await?;
            if let Some(new) = new.filter(|_| locked.active) {
                pipelines::insert(backend, transaction, new).await?;
            }
            Ok(())
        })
        .await
}

/// Enqueues a job for each schedule that is due; while one waits, there is no second one. Gives their number.
///
/// # Errors
/// Whatever the database reports.
pub async fn enqueue_due(backend: &Backend) -> Result<usize> {
    let due = pipeline_schedules::due(backend.database.read(), now(), AT_ONCE).await?;
    for schedule_id in &due {
        let job = RunSchedule {
            schedule_id: *schedule_id,
        };
        jobs::enqueue(backend.database.write(), &job)
            .await
            .map_err(Error::internal)?;
    }
    Ok(due.len())
}

/// What becomes of a schedule that is due.
async fn outcome(backend: &Backend, schedule: &Model) -> Result<Outcome> {
    let owner = match schedule.owner_id {
        Some(id) => users::Entity::find_by_id(id).one(backend.database.read()).await?,
        None => None,
    };
    let acts = |owner: &users::Model| owner.state == State::Active && owner.deletion_started_at.is_none();
    let Some(owner) = owner.filter(acts) else {
        return Ok(Outcome::End);
    };
    let user_id = owner.id;
    let project = schedule.project_id.to_string();
    let access = match ProjectAccess::find(backend, Caller::user(owner), &project).await {
        Ok(access) => access,
        Err(Error::NotFound(_)) => return Ok(Outcome::Skip("the owner cannot see the project")),
        Err(error) => return Err(error),
    };
    match refuse_maker(&access) {
        Err(Error::Forbidden(_)) => return Ok(Outcome::Skip("the owner is not allowed to create pipelines")),
        other => other?,
    }
    let Some(reference) = resolve(backend, &access, &schedule.ref_name).await? else {
        return Ok(Outcome::Skip("the branch or tag does not exist"));
    };
    match refuse_reference(backend, &access, &reference).await {
        Err(Error::Forbidden(_)) => Ok(Outcome::Skip(
            "the owner is not allowed to use the protected branch",
        )),
        other => other.map(|()| Outcome::Run(reference, user_id)),
    }
}

async fn new(
    backend: &Backend,
    schedule: &Model,
    reference: Reference,
    user_id: i64,
    time: Option<DateTime<Utc>>,
) -> Result<NewPipeline> {
    Ok(NewPipeline {
        project_id: schedule.project_id,
        reference,
        source: Source::Schedule,
        user_id,
        variables: variables::all(backend, schedule.id).await?,
        trigger_id: None,
        schedule: Some((schedule.id, time)),
    })
}

/// Locks the project and then the schedule; none when one of them is gone.
async fn lock(transaction: &DatabaseTransaction, schedule: &Model) -> Result<Option<Model>> {
    if projects::hold(transaction, schedule.project_id).await?.is_none() {
        return Ok(None);
    }
    let found = Entity::find_by_id(schedule.id).lock_exclusive();
    Ok(found.one(transaction).await?)
}
