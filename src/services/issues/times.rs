//! How long an issue is thought to take, and how long it took (specification 2.5).

use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};

use super::telling::{Told, tell};
use super::{find, lock};
use crate::entities::{issues, now, timelogs};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::durations;
use crate::services::notes::system;

/// What becomes of the times of an issue.
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

/// The issue whose times are asked for.
///
/// # Errors
/// 404, also where the caller may not see it.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<issues::Model> {
    find(backend.database.read(), access, iid).await
}

/// Changes the times of an issue.
///
/// # Errors
/// 404, and 400 for a duration that is none, and for taking off more than was spent.
pub async fn change(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    change: Change,
) -> Result<issues::Model> {
    let author = access.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let issue = lock(transaction, access, iid).await?;
            let (id, before) = (issue.id, issue.clone());
            let mut row = issue.into_active_model();
            let note = match &change {
                Change::Estimate(duration) => {
                    let seconds = parse(duration)?;
                    if seconds < 0 {
                        return Err(invalid());
                    }
                    row.time_estimate = Set(seconds);
                    system::estimated(seconds)
                }
                Change::ResetEstimate => {
                    row.time_estimate = Set(0);
                    system::estimated(0)
                }
                Change::Spend(duration) => {
                    let seconds = parse(duration)?;
                    let total = before.total_time_spent.checked_add(seconds);
                    let total = total.filter(|total| (0..=durations::LONGEST).contains(total));
                    row.total_time_spent = Set(total.ok_or_else(too_much)?);
                    let log = timelogs::ActiveModel {
                        issue_id: Set(Some(id)),
                        user_id: Set(Some(author)),
                        time_spent: Set(seconds),
                        spent_at: Set(now()),
                        created_at: Set(now()),
                        ..Default::default()
                    };
                    log.insert(transaction).await?;
                    system::spent(seconds)
                }
                Change::ResetSpent => {
                    row.total_time_spent = Set(0);
                    timelogs::Entity::delete_many()
                        .filter(timelogs::Column::IssueId.eq(id))
                        .exec(transaction)
                        .await?;
                    system::spent_nothing()
                }
            };
            row.updated_at = Set(now());
            let issue = row.update(transaction).await?;
            let told = Told {
                access,
                author,
                before: Some(&before),
                after: &issue,
            };
            tell(transaction, told, vec![note]).await?;
            Ok(issue)
        })
        .await
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
