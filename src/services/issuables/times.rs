//! How long something is thought to take, and how long it took (specification 2.5).

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::{now, timelogs};

use super::Kind;
use crate::error::{Error, Result};
use crate::services::durations;
use crate::services::notes::system;

/// The times of something, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long it is thought to take; 0 when nobody knows.
    pub estimate: i64,
    /// How long it took so far.
    pub spent: i64,
}

/// What becomes of the times of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is thought to take so long.
    Estimate(String),
    /// Nobody knows how long it takes.
    ResetEstimate,
    /// So much more, or less, was spent on it.
    Spend(String),
    /// Nothing was spent on it.
    ResetSpent,
}

/// Enters a change of the times of something into the log, and gives what they are then, and the note that tells of it.
///
/// # Errors
/// 400 for a duration that is none, and for taking off more than was spent.
pub(in crate::services) async fn apply(
    transaction: &DatabaseTransaction,
    (kind, id): (Kind, i64),
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
            Ok((Times { estimate, ..times }, system::estimated(estimate)))
        }
        Change::ResetEstimate => Ok((Times { estimate: 0, ..times }, system::estimated(0))),
        Change::Spend(duration) => {
            let seconds = parse(duration)?;
            let total = times.spent.checked_add(seconds);
            let total = total.filter(|total| (0..=durations::LONGEST).contains(total));
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
                Kind::Issue => log.issue_id = Set(Some(id)),
                Kind::MergeRequest => log.merge_request_id = Set(Some(id)),
            }
            log.insert(transaction).await?;
            Ok((Times { spent, ..times }, system::spent(seconds)))
        }
        Change::ResetSpent => {
            timelogs::Entity::delete_many()
                .filter(Expr::col(kind.key()).eq(id))
                .exec(transaction)
                .await?;
            Ok((Times { spent: 0, ..times }, system::spent_nothing()))
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
