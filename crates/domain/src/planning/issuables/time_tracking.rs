//! Time tracking: estimated and spent time.

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::{now, timelogs};

use super::IssuableKind;
use crate::kernel::durations;
use crate::kernel::error::{Error, Result};
use crate::planning::system_notes;

/// Tracked times, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Estimated time; 0 without an estimate.
    pub estimate: i64,
    /// Total time spent.
    pub spent: i64,
}

/// Change of the tracked times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets the estimate.
    Estimate(String),
    /// Removes the estimate.
    ResetEstimate,
    /// Adds a duration to the time spent, or subtracts it.
    Spend(String),
    /// Resets the time spent to zero.
    ResetSpent,
}

/// Logs a change of the tracked times. Returns the new times and the text of the system note.
///
/// # Errors
/// Returns `Error::InvalidParameters` if the duration is invalid or more time is subtracted than was spent.
pub(crate) async fn apply(
    transaction: &DatabaseTransaction,
    (kind, id): (IssuableKind, i64),
    author: i64,
    times: Times,
    change: &Change,
) -> Result<(Times, String)> {
    match change {
        Change::Estimate(duration) => {
            let estimate = parse(duration)?;
            if estimate < 0 {
                return Err(invalid());
            }
            Ok((Times { estimate, ..times }, system_notes::estimated(estimate)))
        }
        Change::ResetEstimate => Ok((Times { estimate: 0, ..times }, system_notes::estimated(0))),
        Change::Spend(duration) => {
            let seconds = parse(duration)?;
            let total = times.spent.checked_add(seconds);
            let total = total.filter(|total| (0..=durations::MAX_SECONDS).contains(total));
            let spent = total.ok_or_else(too_much)?;
            let at = now();
            let mut log = timelogs::ActiveModel {
                user_id: Set(Some(author)),
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
            Ok((Times { spent, ..times }, system_notes::spent(seconds)))
        }
        Change::ResetSpent => {
            timelogs::Entity::delete_many()
                .filter(Expr::col(kind.key()).eq(id))
                .exec(transaction)
                .await?;
            Ok((Times { spent: 0, ..times }, system_notes::spent_nothing()))
        }
    }
}

fn parse(duration: &str) -> Result<i64> {
    durations::parse(duration).ok_or_else(invalid)
}

fn invalid() -> Error {
    Error::parameter("duration is invalid")
}

fn too_much() -> Error {
    Error::attribute("time_spent", "Time to subtract exceeds the total time spent")
}
