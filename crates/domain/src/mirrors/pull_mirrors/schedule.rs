//! Times of updates: regularly, and after a failure with growing delays.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveEnum, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::clock::scheduling_time;
use storage::entities::pull_mirrors::{self, Column, Entity, Model};
use storage::entities::remote_mirrors::MirrorStatus;
use storage::jobs;

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::InstancePlan;
use crate::mirrors::jobs::update_pull_mirror::UpdatePullMirror;

/// Number of updates that fail in a row until no more are scheduled.
pub const MAX_FAILURES: i32 = 14;
/// Delay after the first failure. The delay doubles with each further failure.
const FIRST_DELAY: TimeDelta = TimeDelta::minutes(5);
/// Maximum delay after a failure.
const MAX_DELAY: TimeDelta = TimeDelta::hours(4);
/// Maximum number of updates that are enqueued at once.
const MAX_ENQUEUED: u64 = 1000;

/// Enqueues the updates that are due, and returns their number. Several nodes may call this at the same time.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn enqueue_due(backend: &Backend) -> Result<usize> {
    if backend.instance.plan < InstancePlan::Starter {
        return Ok(0);
    }
    let (now, interval) = (scheduling_time(), interval(backend));
    let longest = interval.max(MAX_DELAY);
    let due = pull_mirrors::due(backend.database.read(), now, longest, MAX_ENQUEUED).await?;
    let mut enqueued = 0;
    for mirror_id in due {
        let job = UpdatePullMirror { mirror_id };
        let is_enqueued = jobs::enqueue_claimed(&backend.database, &job, async |transaction| {
            let claimed = Entity::update_many()
                .col_expr(Column::NextUpdateAt, Expr::value(now + interval))
                .col_expr(Column::UpdateStatus, scheduled_status())
                .filter(Column::Id.eq(mirror_id))
                .filter(pull_mirrors::is_due(now, longest))
                .exec(transaction)
                .await?;
            Ok(claimed.rows_affected > 0)
        });
        enqueued += usize::from(is_enqueued.await.map_err(Error::internal)?);
    }
    Ok(enqueued)
}

/// Schedules an update for now, and forgets former failures.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn schedule_now(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    mirror_id: i64,
) -> Result<Model> {
    let updated = Entity::update_many()
        .col_expr(
            Column::NextUpdateAt,
            Expr::value(scheduling_time() + interval(backend)),
        )
        .col_expr(Column::UpdateStatus, scheduled_status())
        .col_expr(Column::Failures, Expr::value(0))
        .filter(Column::Id.eq(mirror_id))
        .exec_with_returning(transaction)
        .await?;
    // The delay of a waiting retry would remain.
    let job = UpdatePullMirror { mirror_id };
    jobs::cancel(transaction, &job).await?;
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)?;
    let mirror = updated.into_iter().next();
    mirror.ok_or_else(|| Error::not_found("Project"))
}

/// Returns the status of a mirror whose update is scheduled. A running update keeps its status until it ends.
fn scheduled_status() -> Expr {
    let started = Expr::col(Column::UpdateStatus).eq(MirrorStatus::Started.to_value());
    Expr::case(started, MirrorStatus::Started.to_value())
        .finally(MirrorStatus::Scheduled.to_value())
        .into()
}

fn interval(backend: &Backend) -> TimeDelta {
    TimeDelta::minutes(i64::from(backend.instance.pull_mirror_minutes))
}

/// Returns when the next update is due after this number of failures, or `None` if no further update is scheduled.
pub(super) fn next_update(backend: &Backend, failures: i32) -> Option<DateTime<Utc>> {
    delay(failures, interval(backend)).map(|delay| scheduling_time() + delay)
}

fn delay(failures: i32, interval: TimeDelta) -> Option<TimeDelta> {
    match failures {
        0 => Some(interval),
        MAX_FAILURES.. => None,
        // Six doublings exceed the maximum.
        failures => Some((FIRST_DELAY * (1 << (failures - 1).clamp(0, 6))).min(MAX_DELAY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_grows_with_failures_until_updates_stop() {
        let minutes = |failures| delay(failures, TimeDelta::minutes(30)).map(|delay| delay.num_minutes());
        let expected = [30, 5, 10, 20, 40, 80, 160, 240, 240, 240, 240, 240, 240, 240].map(Some);
        let found: Vec<_> = (0..MAX_FAILURES).map(minutes).collect();
        assert_eq!(found, expected);
        assert_eq!((minutes(MAX_FAILURES), minutes(i32::MAX)), (None, None));
    }
}
