//! The statements on the table of jobs. Each is one statement, so that nothing is half done.
//!
//! A job waits (not locked), runs (locked until its lease ends) or is dead (kept for the operator). One that
//! is done has no row. Instants come from the nodes' clocks, which must agree to within a lease.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, ExprTrait, FromQueryResult, QueryFilter,
    sea_query::{Expr, Func, LockBehavior, LockType, OnConflict, Order, Query, SubQueryStatement},
};

use super::Job;
use crate::{
    database::{self, Violation},
    entities::{
        self,
        jobs::{ActiveModel, Column, Entity, Model},
    },
};

/// How much of an error is kept, in bytes.
const ERROR_LENGTH: usize = 4096;

/// Why a job could not be enqueued.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    /// The payload is not expressible in JSON.
    #[error("job payload: {0}")]
    Payload(#[from] serde_json::Error),
    /// The database refused.
    #[error(transparent)]
    Database(#[from] DbErr),
}

/// Enqueues a job, to be run as soon as the caller's transaction is committed.
///
/// # Errors
/// [`EnqueueError`].
pub async fn enqueue<J: Job>(db: &impl ConnectionTrait, job: &J) -> Result<(), EnqueueError> {
    enqueue_at(db, job, entities::now()).await
}

/// Enqueues a job, not to be run before an instant. Of jobs that have the same key the earliest instant and
/// the latest payload count.
///
/// # Errors
/// [`EnqueueError`].
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
        created_at: Set(entities::now()),
        ..Default::default()
    };
    // Updating, rather than doing nothing, locks the waiting row until this transaction ends: were it run
    // before, it would not see what this transaction changes.
    let earliest = Expr::case(
        Expr::col((EXCLUDED, Column::RunAt)).lt(Expr::col((Entity, Column::RunAt))),
        Expr::col((EXCLUDED, Column::RunAt)),
    )
    .finally(Expr::col((Entity, Column::RunAt)));
    let renew = OnConflict::columns([Column::Kind, Column::DedupKey])
        .target_and_where(
            Expr::col(Column::LockedBy)
                .is_null()
                .and(Expr::col(Column::DeadAt).is_null()),
        )
        .update_column(Column::Payload)
        .value(Column::RunAt, earliest)
        .to_owned();
    Entity::insert(row)
        .on_conflict(renew)
        .exec_without_returning(db)
        .await?;
    database::wake_on_commit();
    Ok(())
}

/// Takes back a job that has a key and waits, because what it is to do has been done; one that runs is left alone.
///
/// # Errors
/// Whatever the database reports.
pub async fn withdraw<J: Job>(db: &impl ConnectionTrait, job: &J) -> Result<(), DbErr> {
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

/// The name under which both databases know the row that was to be inserted.
const EXCLUDED: &str = "excluded";

/// How many jobs there are, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// That wait, whether due or not.
    pub waiting: u64,
    /// That run, or whose runner was lost.
    pub running: u64,
    /// That were given up.
    pub dead: u64,
}

/// Counts the jobs, all at one moment: a job that begins, ends or is followed by another meanwhile is counted once.
///
/// # Errors
/// Whatever the database reports.
pub async fn backlog(db: &impl ConnectionTrait) -> Result<Backlog, DbErr> {
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
    Ok(Backlog {
        waiting: number("waiting")?,
        running: number("running")?,
        dead: number("dead")?,
    })
}

/// Removes jobs that were given up before an instant; gives their number.
///
/// # Errors
/// Whatever the database reports.
pub async fn purge_dead(db: &impl ConnectionTrait, before: DateTime<Utc>) -> Result<u64, DbErr> {
    let done = Entity::delete_many()
        .filter(Column::DeadAt.lt(before))
        .exec(db)
        .await?;
    Ok(done.rows_affected)
}

/// Claims the next due job of some kinds for a runner until `now + lease`; counts the attempt.
pub(super) async fn claim(
    db: &impl ConnectionTrait,
    kinds: &[&str],
    runner: &str,
    now: DateTime<Utc>,
    lease: TimeDelta,
) -> Result<Option<Model>, DbErr> {
    const CANDIDATE: &str = "candidate";
    const RUNNING: &str = "running";
    let twin_runs = Query::select()
        .expr(Expr::val(1))
        .from_as(Entity, RUNNING)
        .and_where(Expr::col((RUNNING, Column::Kind)).eq(Expr::col((CANDIDATE, Column::Kind))))
        .and_where(Expr::col((RUNNING, Column::DedupKey)).eq(Expr::col((CANDIDATE, Column::DedupKey))))
        .and_where(Expr::col((RUNNING, Column::Id)).ne(Expr::col((CANDIDATE, Column::Id))))
        .and_where(Expr::col((RUNNING, Column::LockedUntil)).gte(now))
        .take();
    let free = Condition::any()
        .add(Expr::col((CANDIDATE, Column::LockedUntil)).is_null())
        .add(Expr::col((CANDIDATE, Column::LockedUntil)).lt(now));
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
        // Equality, not IN: the sub-select must run once, or more than one row could be claimed.
        .and_where(Expr::col(Column::Id).eq(Expr::from(SubQueryStatement::from(next))))
        .returning_all()
        .take();
    db.query_one(&claim)
        .await?
        .map(|row| Model::from_query_result(&row, ""))
        .transpose()
}

/// Extends the lease of a claimed job; false when the claim was lost to another runner.
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

/// Removes a claimed job that is done.
pub(super) async fn complete(db: &impl ConnectionTrait, job: &Model) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(claimed(job))
        .exec(db)
        .await
        .map(drop)
}

/// Gives a claimed job back, to be begun again not before an instant.
pub(super) async fn retry(
    db: &impl ConnectionTrait,
    job: &Model,
    run_at: DateTime<Utc>,
    error: &str,
) -> Result<(), DbErr> {
    let row = ActiveModel {
        run_at: Set(run_at),
        last_error: Set(Some(cut(error))),
        ..unlocked()
    };
    give_back(db, job, row).await
}

/// Gives back what a runner holds, as if it had not been claimed.
pub(super) async fn release_all(db: &impl ConnectionTrait, runner: &str) -> Result<(), DbErr> {
    for job in Entity::find().filter(Column::LockedBy.eq(runner)).all(db).await? {
        let row = ActiveModel {
            attempts: Set(job.attempts - 1),
            ..unlocked()
        };
        give_back(db, &job, row).await?;
    }
    Ok(())
}

/// Gives back whatever is held; the attempts count. For a process that is alone on the database: then
/// whoever held it is dead, and its leases need not be waited for.
///
/// # Errors
/// Whatever the database reports.
pub async fn release_abandoned(db: &impl ConnectionTrait) -> Result<u64, DbErr> {
    let held = Entity::find()
        .filter(Column::LockedBy.is_not_null())
        .filter(Column::DeadAt.is_null())
        // In its last attempt it is not begun again, but given up when the lease ends.
        .filter(Expr::col(Column::Attempts).lt(Expr::col(Column::MaxAttempts)))
        .all(db)
        .await?;
    let count = held.len() as u64;
    for job in held {
        give_back(db, &job, unlocked()).await?;
    }
    Ok(count)
}

/// Gives a claimed job up, and keeps it with its error.
pub(super) async fn bury(
    db: &impl ConnectionTrait,
    job: &Model,
    now: DateTime<Utc>,
    error: &str,
) -> Result<(), DbErr> {
    let row = ActiveModel {
        dead_at: Set(Some(now)),
        last_error: Set(Some(cut(error))),
        ..unlocked()
    };
    update_claimed(db, job, row).await.map(drop)
}

/// Gives up the jobs whose runner was lost in their last attempt; gives their number.
pub(super) async fn bury_lost(db: &impl ConnectionTrait, now: DateTime<Utc>) -> Result<u64, DbErr> {
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

fn unlocked() -> ActiveModel {
    ActiveModel {
        locked_by: Set(None),
        locked_until: Set(None),
        ..Default::default()
    }
}

/// Lets a claimed job wait again; if one of its key waits already, that one will do.
async fn give_back(db: &impl ConnectionTrait, job: &Model, row: ActiveModel) -> Result<(), DbErr> {
    match update_claimed(db, job, row).await {
        Err(error) if Violation::is_unique(&error, "uq_jobs_kind_dedup_key") => complete(db, job).await,
        outcome => outcome.map(drop),
    }
}

async fn update_claimed(db: &impl ConnectionTrait, job: &Model, row: ActiveModel) -> Result<bool, DbErr> {
    let done = Entity::update_many()
        .set(row)
        .filter(claimed(job))
        .exec(db)
        .await?;
    Ok(done.rows_affected > 0)
}

/// The row, as long as the claim stands: the number of the attempt tells claims of one runner apart.
fn claimed(job: &Model) -> Condition {
    Condition::all()
        .add(Column::Id.eq(job.id))
        .add(Column::LockedBy.eq(job.locked_by.clone()))
        .add(Column::Attempts.eq(job.attempts))
}

fn cut(error: &str) -> String {
    let end = error.floor_char_boundary(ERROR_LENGTH);
    error.get(..end).unwrap_or(error).to_owned()
}
