//! Rate limits of expensive operations per user, counted across all nodes.

use chrono::TimeDelta;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::clock::scheduling_time;
use storage::entities::{spent_actions, users};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Longest interval of a limit; older rows are deleted.
const MAX_INTERVAL: TimeDelta = TimeDelta::hours(1);

/// A rate limit.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    /// The name of the operation.
    pub action: &'static str,
    /// The maximum number.
    pub most: u64,
    /// The interval, at most an hour.
    pub within: TimeDelta,
}

/// Counts an operation of a user, or refuses it beyond the limit.
///
/// # Errors
/// Returns [`Error::RateLimited`] with the time until the next permitted attempt.
pub async fn consume(backend: &Backend, user_id: i64, allowance: Quota) -> Result<()> {
    let Quota { action, most, within } = allowance;
    backend
        .database
        .transaction(async |transaction| {
            // Lock the user, so that parallel requests cannot exceed the limit together.
            if users::lock(transaction, user_id).await?.is_none() {
                return Err(Error::Unauthorized);
            }
            let instant = scheduling_time();
            spent_actions::Entity::delete_many()
                .filter(spent_actions::Column::DoneAt.lte(instant - MAX_INTERVAL))
                .exec(transaction)
                .await?;
            let oldest = spent_actions::since(user_id, action, instant - within)
                .offset(most.saturating_sub(1))
                .limit(1)
                .one(transaction)
                .await?;
            if let Some(oldest) = oldest {
                let wait = (oldest.done_at + within - instant).num_seconds();
                return Err(Error::RateLimited(
                    u64::try_from(wait).unwrap_or(0).saturating_add(1),
                ));
            }
            let row = spent_actions::ActiveModel {
                user_id: Set(user_id),
                action: Set(action.to_owned()),
                done_at: Set(instant),
                ..Default::default()
            };
            row.insert(transaction).await?;
            Ok(())
        })
        .await
}
