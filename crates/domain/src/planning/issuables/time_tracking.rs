//! Time tracking: estimated and spent time.

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::{issues, merge_requests, now, timelogs};

use super::events::{self, IssuableChange, IssuableEventRow};
use super::{IssuableKind, IssuableRow, find, lock};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::text::durations;
use crate::planning::system_notes;

/// Tracked times, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackedTimes {
    /// Estimated time; 0 without an estimate.
    pub estimate: i64,
    /// Total time spent.
    pub spent: i64,
}

/// Change of the tracked times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeTrackingUpdate {
    /// Sets the estimate.
    Estimate(String),
    /// Removes the estimate.
    ResetEstimate,
    /// Adds a duration to the time spent, or subtracts it.
    Spend(String),
    /// Resets the time spent to zero.
    ResetSpent,
}

/// Returns the tracked times of an issue or merge request.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    kind: IssuableKind,
    iid: i64,
) -> Result<TrackedTimes> {
    let db = backend.database.read();
    match kind {
        IssuableKind::Issue => Ok(find::<issues::Model>(db, access, iid).await?.times()),
        IssuableKind::MergeRequest => Ok(find::<merge_requests::Model>(db, access, iid).await?.times()),
    }
}

/// Updates the tracked times of an issue or merge request. Does nothing if the estimate or the time spent has the
/// value already.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it. Returns
/// `Error::InvalidParameters` if the duration is invalid or more time is subtracted than was spent.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    kind: IssuableKind,
    iid: i64,
    update: TimeTrackingUpdate,
) -> Result<TrackedTimes> {
    match kind {
        IssuableKind::Issue => update_row::<issues::Model>(backend, access, iid, update).await,
        IssuableKind::MergeRequest => update_row::<merge_requests::Model>(backend, access, iid, update).await,
    }
}

async fn update_row<T: IssuableEventRow>(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    update: TimeTrackingUpdate,
) -> Result<TrackedTimes> {
    let user_id = access.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let before: T = lock(transaction, access, iid).await?;
            let id = (T::KIND, before.id());
            let (times, note) = log(transaction, id, user_id, before.times(), &update).await?;
            if times == before.times() && !matches!(update, TimeTrackingUpdate::Spend(_)) {
                return Ok(times);
            }
            let after = before.update_times(transaction, times).await?;
            let change = IssuableChange::updated(Some(user_id), &before, &after, vec![note]);
            events::publish(transaction, change).await?;
            Ok(times)
        })
        .await
}

/// Logs a change of the tracked times. Returns the new times and the text of the system note.
///
/// # Errors
/// Returns `Error::InvalidParameters` if the duration is invalid or more time is subtracted than was spent.
async fn log(
    transaction: &DatabaseTransaction,
    (kind, id): (IssuableKind, i64),
    user_id: i64,
    times: TrackedTimes,
    update: &TimeTrackingUpdate,
) -> Result<(TrackedTimes, String)> {
    match update {
        TimeTrackingUpdate::Estimate(duration) => {
            let estimate = parse(duration)?;
            if estimate < 0 {
                return Err(invalid());
            }
            Ok((
                TrackedTimes { estimate, ..times },
                system_notes::estimate_changed(estimate),
            ))
        }
        TimeTrackingUpdate::ResetEstimate => Ok((
            TrackedTimes { estimate: 0, ..times },
            system_notes::estimate_changed(0),
        )),
        TimeTrackingUpdate::Spend(duration) => {
            let seconds = parse(duration)?;
            let total = times.spent.checked_add(seconds);
            let total = total.filter(|total| (0..=durations::MAX_SECONDS).contains(total));
            let spent = total.ok_or_else(exceeds_time_spent)?;
            let at = now();
            let mut log = timelogs::ActiveModel {
                user_id: Set(Some(user_id)),
                time_spent: Set(seconds),
                spent_at: Set(at),
                created_at: Set(at),
                ..Default::default()
            };
            match kind {
                IssuableKind::Issue => log.issue_id = Set(Some(id)),
                IssuableKind::MergeRequest => log.merge_request_id = Set(Some(id)),
            }
            log.insert(transaction).await?;
            Ok((TrackedTimes { spent, ..times }, system_notes::time_spent(seconds)))
        }
        TimeTrackingUpdate::ResetSpent => {
            timelogs::Entity::delete_many()
                .filter(Expr::col(kind.key()).eq(id))
                .exec(transaction)
                .await?;
            Ok((
                TrackedTimes { spent: 0, ..times },
                system_notes::time_spent_reset(),
            ))
        }
    }
}

fn parse(duration: &str) -> Result<i64> {
    durations::parse(duration).ok_or_else(invalid)
}

fn invalid() -> Error {
    Error::parameter("duration is invalid")
}

fn exceeds_time_spent() -> Error {
    Error::attribute("time_spent", "Time to subtract exceeds the total time spent")
}
