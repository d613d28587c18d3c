//! Statements on the table of jobs. Each operation is a single statement or a transaction, and therefore atomic.
//!
//! A job waits (unlocked), runs (locked until its lease expires) or is dead (kept for the operator). A
//! finished job has no row. Timestamps come from the clocks of the nodes, which may differ by less than a
//! lease.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, ExprTrait,
    FromQueryResult, PaginatorTrait, QueryFilter,
    sea_query::{Expr, Func, LockBehavior, LockType, OnConflict, Order, Query, SubQueryStatement},
};

use super::Job;
use crate::{
    clock::scheduling_time,
    database::{self, Database, Violation},
    entities::{
        self,
        jobs::{ActiveModel, Column, Entity, Model},
    },
};

/// Maximum length of a stored error, in bytes.
const ERROR_LENGTH: usize = 4096;

/// The reason why a job could not be enqueued.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    /// The payload cannot be serialized to JSON.
    #[error("job payload: {0}")]
    Payload(#[from] serde_json::Error),
    /// The database failed.
    #[error("{0}")]
    Database(#[from] DbErr),
}

/// Enqueues a job that runs as soon as the caller's transaction is committed.
///
/// # Errors
/// Returns [`EnqueueError`] if the payload cannot be serialized or a database query fails.
pub async fn enqueue<J: Job>(db: &impl ConnectionTrait, job: &J) -> Result<(), EnqueueError> {
    enqueue_at(db, job, scheduling_time()).await
}

/// Enqueues a job that runs no earlier than an instant. Jobs with the same key are merged into one with the
/// earliest instant and the latest payload. If the waiting job has failed or was postponed, its delay does not change,
/// and it has all attempts of a new job.
///
/// # Errors
/// Returns [`EnqueueError`] if the payload cannot be serialized or a database query fails.
pub async fn enqueue_at<J: Job>(
    db: &impl ConnectionTrait,
    job: &J,
    run_at: DateTime<Utc>,
) -> Result<(), EnqueueError> {
    let row = ActiveModel {
        kind: Set(J::KIND.to_owned()),
        payload: Set(serde_json::to_string(job)?),
        dedup_key: Set(job.dedup_key()),
        run_at: Set(run_at),
        max_attempts: Set(i32::from(J::MAX_ATTEMPTS)),
        created_at: Set(scheduling_time()),
        ..Default::default()
    };
    let renew = merge_into_waiting(earliest_after_delay())
        .update_column(Column::Payload)
        .to_owned();
    Entity::insert(row)
        .on_conflict(renew)
        .exec_without_returning(db)
        .await?;
    database::wake_on_commit();
    Ok(())
}

/// Returns the action for an inserted job if an equivalent job waits: that job runs at `run_at` and represents both.
///
/// An update locks the waiting row until the transaction ends; doing nothing on conflict would not. Otherwise the job
/// could run earlier, without seeing the changes of the transaction.
///
/// The attempts of the waiting job belong to the work that was enqueued before. The new work needs all its attempts, so
/// the maximum grows by the used ones. The used ones remain: they determine the delay after the next failure. If they
/// were reset, a job that is enqueued every few seconds and always fails would run again after the first delay each
/// time.
pub(super) fn merge_into_waiting(run_at: Expr) -> OnConflict {
    let attempts = Expr::col((Entity, Column::Attempts)).add(Expr::col((EXCLUDED, Column::MaxAttempts)));
    if_equivalent_waits()
        .value(Column::RunAt, run_at)
        .value(Column::MaxAttempts, attempts)
        .to_owned()
}

/// Returns the action for a released job that is inserted again if an equivalent job waits, which was enqueued while
/// the released one ran. The result is the same as if that job had been enqueued after the release: it waits for the
/// delay of the released job, has the used attempts of both, and has all its own attempts left.
fn merge_released_into_waiting() -> OnConflict {
    let plus_released =
        |column: Column| Expr::col((Entity, column)).add(Expr::col((EXCLUDED, Column::Attempts)));
    if_equivalent_waits()
        .value(Column::Attempts, plus_released(Column::Attempts))
        .value(Column::MaxAttempts, plus_released(Column::MaxAttempts))
        .update_columns([Column::RunAt, Column::LastError])
        .to_owned()
}

/// Returns the conflict of an inserted job with an equivalent job that waits.
fn if_equivalent_waits() -> OnConflict {
    OnConflict::columns([Column::Kind, Column::DedupKey])
        .target_and_where(
            Expr::col(Column::LockedBy)
                .is_null()
                .and(Expr::col(Column::DeadAt).is_null()),
        )
        .to_owned()
}

/// Returns the earlier instant of a waiting job and an inserted one, for [`merge_into_waiting`].
pub(super) fn earliest() -> Expr {
    Expr::case(
        Expr::col((EXCLUDED, Column::RunAt)).lt(Expr::col((Entity, Column::RunAt))),
        Expr::col((EXCLUDED, Column::RunAt)),
    )
    .finally(Expr::col((Entity, Column::RunAt)))
    .into()
}

/// Returns [`earliest`], or the instant of the waiting job if it waits after an attempt without success. A postponed
/// job may have no attempts, but it has an error.
fn earliest_after_delay() -> Expr {
    Expr::case(
        Expr::col((Entity, Column::LastError)).is_not_null(),
        Expr::col((Entity, Column::RunAt)),
    )
    .finally(earliest())
    .into()
}

/// Cancels a waiting job with the same key, because its work is done. A running job is not affected.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn cancel<J: Job>(db: &impl ConnectionTrait, job: &J) -> Result<(), DbErr> {
    let Some(key) = job.dedup_key() else {
        return Ok(());
    };
    Entity::delete_many()
        .filter(Column::Kind.eq(J::KIND))
        .filter(Column::DedupKey.eq(key))
        .filter(Column::LockedBy.is_null())
        .filter(Column::DeadAt.is_null())
        .exec(db)
        .await
        .map(drop)
}

/// Returns whether a job with the same key waits or runs.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn is_scheduled<J: Job>(db: &impl ConnectionTrait, job: &J) -> Result<bool, DbErr> {
    let scheduled = Entity::find()
        .filter(Column::Kind.eq(J::KIND))
        .filter(Column::DedupKey.eq(job.dedup_key()))
        .filter(Column::DeadAt.is_null());
    Ok(scheduled.count(db).await? > 0)
}

/// Name of the row proposed for insertion, in both databases.
const EXCLUDED: &str = "excluded";

/// Number of jobs by state, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobBacklog {
    /// Jobs that wait, due or not.
    pub waiting: u64,
    /// Jobs that run or whose runner was lost.
    pub running: u64,
    /// Jobs that failed permanently.
    pub dead: u64,
}

/// Counts the jobs in one statement, so that a job that changes its state meanwhile is counted once.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn backlog(db: &impl ConnectionTrait) -> Result<JobBacklog, DbErr> {
    let alive = || Expr::col(Column::DeadAt).is_null();
    let waiting = alive().and(Expr::col(Column::LockedBy).is_null());
    let running = alive().and(Expr::col(Column::LockedBy).is_not_null());
    let dead = Expr::col(Column::DeadAt).is_not_null();
    let count = |which: Expr| Func::count(Expr::case(which, 1));
    let counted = Query::select()
        .expr_as(count(waiting), "waiting")
        .expr_as(count(running), "running")
        .expr_as(count(dead), "dead")
        .from(Entity)
        .take();
    let row = db.query_one(&counted).await?;
    let number = |name| match &row {
        Some(row) => row.try_get::<i64>("", name).map(i64::unsigned_abs),
        None => Ok(0),
    };
    Ok(JobBacklog {
        waiting: number("waiting")?,
        running: number("running")?,
        dead: number("dead")?,
    })
}

/// Deletes jobs that failed permanently before an instant, and returns their number.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn purge_dead(db: &impl ConnectionTrait, before: DateTime<Utc>) -> Result<u64, DbErr> {
    let done = Entity::delete_many()
        .filter(Column::DeadAt.lt(before))
        .exec(db)
        .await?;
    Ok(done.rows_affected)
}

/// Time of a claim. Both times are equal unless the clock was set forward.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimTime {
    /// Time with which the instants of jobs are compared.
    pub(super) now: DateTime<Utc>,
    /// Time with which the leases of other claims are compared.
    pub(super) leases: DateTime<Utc>,
}

/// Claims the next due job of some kinds for a runner until `now + lease`, and counts the attempt.
pub(super) async fn claim(
    db: &impl ConnectionTrait,
    kinds: &[&str],
    runner: &str,
    ClaimTime { now, leases }: ClaimTime,
    lease: TimeDelta,
) -> Result<Option<Model>, DbErr> {
    const CANDIDATE: &str = "candidate";
    const RUNNING: &str = "running";
    // Another statement may claim a job with an expired lease at the same time. With PostgreSQL, this statement then
    // skips the locked row of that job, but reads its expired lease, because the subquery does not see the concurrent
    // claim. So a lost job with attempts left also prevents jobs with its key. It is due, so it is claimed again.
    let may_run = Condition::any()
        .add(Expr::col((RUNNING, Column::LockedUntil)).gte(leases))
        .add(
            Condition::all()
                .add(Expr::col((RUNNING, Column::Attempts)).lt(Expr::col((RUNNING, Column::MaxAttempts))))
                // Of two lost jobs, only the later one waits for the other.
                .add(
                    Condition::any()
                        .add(Expr::col((CANDIDATE, Column::LockedBy)).is_null())
                        .add(Expr::col((RUNNING, Column::Id)).lt(Expr::col((CANDIDATE, Column::Id)))),
                ),
        );
    let twin_runs = Query::select()
        .expr(Expr::val(1))
        .from_as(Entity, RUNNING)
        .and_where(Expr::col((RUNNING, Column::Kind)).eq(Expr::col((CANDIDATE, Column::Kind))))
        .and_where(Expr::col((RUNNING, Column::DedupKey)).eq(Expr::col((CANDIDATE, Column::DedupKey))))
        .and_where(Expr::col((RUNNING, Column::Id)).ne(Expr::col((CANDIDATE, Column::Id))))
        // Matches all locked rows. Unlike `IS NOT NULL`, SQLite looks up a range in the index of this column.
        .and_where(Expr::col((RUNNING, Column::LockedUntil)).gte(DateTime::UNIX_EPOCH))
        .and_where(Expr::col((RUNNING, Column::DeadAt)).is_null())
        .cond_where(may_run)
        .take();
    let free = Condition::any()
        .add(Expr::col((CANDIDATE, Column::LockedUntil)).is_null())
        .add(Expr::col((CANDIDATE, Column::LockedUntil)).lt(leases));
    let next = Query::select()
        .column((CANDIDATE, Column::Id))
        .from_as(Entity, CANDIDATE)
        .and_where(Expr::col((CANDIDATE, Column::Kind)).is_in(kinds.iter().copied()))
        .and_where(Expr::col((CANDIDATE, Column::DeadAt)).is_null())
        .and_where(Expr::col((CANDIDATE, Column::RunAt)).lte(now))
        .and_where(Expr::col((CANDIDATE, Column::Attempts)).lt(Expr::col((CANDIDATE, Column::MaxAttempts))))
        .cond_where(free)
        .and_where(Expr::not_exists(twin_runs))
        .order_by((CANDIDATE, Column::RunAt), Order::Asc)
        .order_by((CANDIDATE, Column::Id), Order::Asc)
        .limit(1)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .take();
    let claim = Query::update()
        .table(Entity)
        .value(Column::Attempts, Expr::col(Column::Attempts).add(1))
        .value(Column::LockedBy, runner)
        .value(Column::LockedUntil, now + lease)
        // Equality instead of `IN`: the subquery must run once, or more than one row could be claimed.
        .and_where(Expr::col(Column::Id).eq(Expr::from(SubQueryStatement::from(next))))
        .returning_all()
        .take();
    db.query_one(&claim)
        .await?
        .map(|row| Model::from_query_result(&row, ""))
        .transpose()
}

/// Extends the lease of a claimed job. Returns false if another runner has taken over the claim.
pub(super) async fn renew(
    db: &impl ConnectionTrait,
    job: &Model,
    now: DateTime<Utc>,
    lease: TimeDelta,
) -> Result<bool, DbErr> {
    let row = ActiveModel {
        locked_until: Set(Some(now + lease)),
        ..Default::default()
    };
    update_claimed(db, job, row).await
}

/// Deletes a claimed job that has succeeded.
pub(super) async fn complete(db: &impl ConnectionTrait, job: &Model) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(claimed(job))
        .exec(db)
        .await
        .map(drop)
}

/// Releases a claimed job for another attempt no earlier than an instant.
pub(super) async fn retry(
    db: &Database,
    job: &Model,
    run_at: DateTime<Utc>,
    error: &str,
) -> Result<(), DbErr> {
    let release = Release {
        run_at,
        last_error: Some(truncate(error)),
        ..Release::counted(job)
    };
    requeue(db, job, release).await
}

/// Releases a claimed job as if it had not been claimed, and runs it no earlier than an instant.
pub(super) async fn postpone(
    db: &Database,
    job: &Model,
    run_at: DateTime<Utc>,
    reason: &str,
) -> Result<(), DbErr> {
    let release = Release {
        run_at,
        last_error: Some(truncate(reason)),
        ..Release::unclaimed(job)
    };
    requeue(db, job, release).await
}

/// Releases all jobs of a runner as if they had not been claimed.
pub(super) async fn requeue_all(db: &Database, runner: &str) -> Result<(), DbErr> {
    let claimed = Entity::find().filter(Column::LockedBy.eq(runner));
    for job in claimed.all(db.write()).await? {
        requeue(db, &job, Release::unclaimed(&job)).await?;
    }
    Ok(())
}

/// Releases all claimed jobs; their attempts count. For a process with exclusive use of the database: the
/// earlier runners are dead, so their leases can be ignored.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn requeue_abandoned(db: &Database) -> Result<u64, DbErr> {
    let claimed = Entity::find()
        .filter(Column::LockedBy.is_not_null())
        .filter(Column::DeadAt.is_null())
        // A job in its last attempt is not started again; it fails permanently when the lease expires.
        .filter(Expr::col(Column::Attempts).lt(Expr::col(Column::MaxAttempts)))
        .all(db.write())
        .await?;
    let count = claimed.len() as u64;
    for job in claimed {
        requeue(db, &job, Release::counted(&job)).await?;
    }
    Ok(count)
}

/// Marks a claimed job as permanently failed and stores its error.
pub(super) async fn mark_dead(
    db: &impl ConnectionTrait,
    job: &Model,
    now: DateTime<Utc>,
    error: &str,
) -> Result<(), DbErr> {
    let row = ActiveModel {
        dead_at: Set(Some(now)),
        last_error: Set(Some(truncate(error))),
        ..unlocked()
    };
    update_claimed(db, job, row).await.map(drop)
}

/// Marks jobs as permanently failed if their runner was lost in the last attempt, and returns their number.
pub(super) async fn mark_lost_dead(db: &impl ConnectionTrait, now: DateTime<Utc>) -> Result<u64, DbErr> {
    let row = ActiveModel {
        dead_at: Set(Some(now)),
        last_error: Set(Some("the runner was lost during the last attempt".to_owned())),
        ..unlocked()
    };
    let done = Entity::update_many()
        .set(row)
        .filter(Column::DeadAt.is_null())
        .filter(Column::LockedUntil.lt(now))
        .filter(Expr::col(Column::Attempts).gte(Expr::col(Column::MaxAttempts)))
        .exec(db)
        .await?;
    Ok(done.rows_affected)
}

/// Corrects the times of jobs that were stored before the clock was set back, so that no job waits until the clock
/// shows these times again. `longest_delay` returns the maximum delay after a number of attempts. Returns the number of
/// waiting jobs that changed.
pub(super) async fn correct_times(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    lease: TimeDelta,
    longest_delay: impl Fn(i32) -> TimeDelta,
) -> Result<usize, DbErr> {
    // A living runner renews its leases, so only those of lost runners expire.
    Entity::update_many()
        .col_expr(Column::LockedUntil, Expr::value(now + lease))
        .filter(Column::LockedUntil.gt(now + lease))
        .exec(db)
        .await?;
    // Jobs of lost runners are claimed again by their instants, and jobs with the same keys wait for them.
    Entity::update_many()
        .col_expr(Column::RunAt, Expr::value(now))
        .filter(Column::LockedBy.is_not_null())
        .filter(Column::DeadAt.is_null())
        .filter(Column::RunAt.gt(now))
        .exec(db)
        .await?;
    let is_waiting = || {
        Condition::all()
            .add(Column::LockedBy.is_null())
            .add(Column::DeadAt.is_null())
    };
    // Other nodes store jobs meanwhile, and their clocks differ.
    let known = now + entities::MAX_CLOCK_DIFFERENCE;
    let later = Entity::find()
        .filter(is_waiting())
        .filter(Column::RunAt.gt(now))
        .filter(Column::CreatedAt.gt(known).or(Column::Attempts.gt(0)))
        .all(db)
        .await?;
    let mut corrected = 0;
    for job in later {
        let dated_ahead = match job.created_at > known {
            true => job.created_at - now,
            false => TimeDelta::zero(),
        };
        let mut run_at = job.run_at - dated_ahead;
        let latest = now + longest_delay(job.attempts);
        if job.attempts > 0 && run_at > latest + entities::MAX_CLOCK_DIFFERENCE {
            run_at = latest;
        }
        if run_at == job.run_at {
            continue;
        }
        let row = ActiveModel {
            run_at: Set(run_at),
            created_at: Set(job.created_at - dated_ahead),
            ..Default::default()
        };
        let changed = Entity::update_many()
            .set(row)
            .filter(is_waiting())
            .filter(Column::Id.eq(job.id));
        changed.exec(db).await?;
        corrected += 1;
    }
    Ok(corrected)
}

fn unlocked() -> ActiveModel {
    ActiveModel {
        locked_by: Set(None),
        locked_until: Set(None),
        ..Default::default()
    }
}

/// Values of a claimed job that returns to the waiting state.
struct Release {
    run_at: DateTime<Utc>,
    attempts: i32,
    last_error: Option<String>,
}

impl Release {
    /// Returns the values of a job whose current attempt counts.
    fn counted(job: &Model) -> Self {
        Self {
            run_at: job.run_at,
            attempts: job.attempts,
            last_error: job.last_error.clone(),
        }
    }

    /// Returns the values of a job as if it had not been claimed.
    fn unclaimed(job: &Model) -> Self {
        Self {
            attempts: job.attempts - 1,
            ..Self::counted(job)
        }
    }
}

/// Returns a claimed job to the waiting state. If a job with the same key waits already, the claimed one is
/// merged into it.
async fn requeue(db: &Database, job: &Model, release: Release) -> Result<(), DbErr> {
    let row = ActiveModel {
        run_at: Set(release.run_at),
        attempts: Set(release.attempts),
        last_error: Set(release.last_error.clone()),
        ..unlocked()
    };
    match update_claimed(db.write(), job, row).await {
        Err(error) if Violation::is_unique(&error, "uq_jobs_kind_dedup_key") => {
            db.transaction(async |transaction| merge_claimed(transaction, job, release).await)
                .await
        }
        outcome => outcome.map(drop),
    }
}

/// Merges a claimed job into the waiting job with the same key. If that job was canceled meanwhile, the claimed job
/// waits instead, in a new row. Has no effect if another runner has taken over the claim.
async fn merge_claimed(
    transaction: &DatabaseTransaction,
    job: &Model,
    release: Release,
) -> Result<(), DbErr> {
    let removed = Entity::delete_many()
        .filter(claimed(job))
        .exec(transaction)
        .await?;
    if removed.rows_affected == 0 {
        return Ok(());
    }
    let row = ActiveModel {
        kind: Set(job.kind.clone()),
        payload: Set(job.payload.clone()),
        dedup_key: Set(job.dedup_key.clone()),
        run_at: Set(release.run_at),
        attempts: Set(release.attempts),
        max_attempts: Set(job.max_attempts),
        last_error: Set(release.last_error),
        created_at: Set(job.created_at),
        ..Default::default()
    };
    Entity::insert(row)
        .on_conflict(merge_released_into_waiting())
        .exec_without_returning(transaction)
        .await
        .map(drop)
}

async fn update_claimed(db: &impl ConnectionTrait, job: &Model, row: ActiveModel) -> Result<bool, DbErr> {
    let done = Entity::update_many()
        .set(row)
        .filter(claimed(job))
        .exec(db)
        .await?;
    Ok(done.rows_affected > 0)
}

/// Matches the row while the claim is valid. The number of the attempt distinguishes claims of the same
/// runner.
fn claimed(job: &Model) -> Condition {
    Condition::all()
        .add(Column::Id.eq(job.id))
        .add(Column::LockedBy.eq(job.locked_by.clone()))
        .add(Column::Attempts.eq(job.attempts))
}

fn truncate(error: &str) -> String {
    let end = error.floor_char_boundary(ERROR_LENGTH);
    error.get(..end).unwrap_or(error).to_owned()
}
