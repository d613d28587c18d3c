//! How often a user may do what is costly for others: so many times in a time, counted on all nodes together.

use chrono::TimeDelta;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::{now, spent_actions, users};

use crate::error::{Error, Result};
use crate::services::Backend;

/// How long anything counts at most; older rows are swept.
const LONGEST: TimeDelta = TimeDelta::hours(1);

/// Something that may be done only so often.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// What it is.
    pub action: &'static str,
    /// How often.
    pub most: u64,
    /// In which time; an hour at most.
    pub within: TimeDelta,
}

/// Counts that a user does something, or refuses.
///
/// # Errors
/// [`Error::RateLimited`] with the time after which it may be done again.
pub async fn spend(backend: &Backend, user_id: i64, allowance: Allowance) -> Result<()> {
    let Allowance { action, most, within } = allowance;
    backend
        .database
        .transaction(async |transaction| {
            // One at a time, so that two cannot both be the last.
            if users::lock(transaction, user_id).await?.is_none() {
                return Err(Error::Unauthorized);
            }
            let instant = now();
            spent_actions::Entity::delete_many()
                .filter(spent_actions::Column::DoneAt.lte(instant - LONGEST))
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
