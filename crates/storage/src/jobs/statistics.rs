//! Number and age of jobs by kind, for metrics.

use chrono::{DateTime, Utc};
use sea_orm::{
    ConnectionTrait, DbErr, ExprTrait,
    sea_query::{Expr, Func, Query},
};

use crate::entities::jobs::{Column, Entity};

/// Jobs of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatistics {
    /// The kind.
    pub kind: String,
    /// Jobs that wait and are due.
    pub waiting: u64,
    /// Jobs that wait for their time, such as the next attempt after a failure.
    pub scheduled: u64,
    /// Jobs that run or whose runner was lost.
    pub running: u64,
    /// Jobs that failed permanently.
    pub failed: u64,
    /// When the oldest job that waits became due.
    pub oldest_due: Option<DateTime<Utc>>,
}

/// Returns the statistics of every kind that has jobs, in one statement that reads the whole queue.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn statistics(db: &impl ConnectionTrait, now: DateTime<Utc>) -> Result<Vec<JobStatistics>, DbErr> {
    let alive = || Expr::col(Column::DeadAt).is_null();
    let unclaimed = || alive().and(Expr::col(Column::LockedBy).is_null());
    let waiting = || unclaimed().and(Expr::col(Column::RunAt).lte(now));
    let scheduled = unclaimed().and(Expr::col(Column::RunAt).gt(now));
    let running = alive().and(Expr::col(Column::LockedBy).is_not_null());
    let failed = Expr::col(Column::DeadAt).is_not_null();
    let count = |which: Expr| Func::count(Expr::case(which, 1));
    let due = Expr::case(waiting(), Expr::col(Column::RunAt));
    let counted = Query::select()
        .column(Column::Kind)
        .expr_as(count(waiting()), "waiting")
        .expr_as(count(scheduled), "scheduled")
        .expr_as(count(running), "running")
        .expr_as(count(failed), "failed")
        .expr_as(Func::min(due), "oldest_due")
        .from(Entity)
        .group_by_col(Column::Kind)
        .take();
    let rows = db.query_all(&counted).await?;
    rows.iter()
        .map(|row| {
            let number = |name: &str| row.try_get::<i64>("", name).map(i64::unsigned_abs);
            Ok(JobStatistics {
                kind: row.try_get("", "kind")?,
                waiting: number("waiting")?,
                scheduled: number("scheduled")?,
                running: number("running")?,
                failed: number("failed")?,
                oldest_due: row.try_get("", "oldest_due")?,
            })
        })
        .collect()
}
