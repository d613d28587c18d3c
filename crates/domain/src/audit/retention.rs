//! Deletes events whose retention time has ended.

use chrono::{TimeDelta, Utc};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};
use storage::entities::audit_events::{Column, Entity};
use storage::entities::now;

use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Maximum number of rows that one statement deletes, so that other writers wait only briefly.
const BATCH: u64 = 500;

/// Deletes the events older than this number of days, and returns their number. If the number is 0, deletes no events.
/// Nothing else deletes events. Triggers of the database refuse to delete events that the setting retains; they use the real
/// time, so a frozen clock in the future does not shorten the retention.
///
/// # Errors
/// Returns an error if the database fails. Batches that were deleted before the error remain deleted.
pub async fn sweep(backend: &Backend, days: u64) -> Result<u64> {
    let days = i64::try_from(days).ok().and_then(TimeDelta::try_days);
    let Some(oldest) = days
        .filter(|days| *days > TimeDelta::zero())
        .and_then(|days| now().min(Utc::now()).checked_sub_signed(days))
    else {
        return Ok(0);
    };
    let mut swept = 0;
    loop {
        let expired = Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(Column::CreatedAt.lt(oldest))
            .order_by_asc(Column::CreatedAt)
            .limit(BATCH)
            .into_query();
        let deleted = Entity::delete_many()
            .filter(Column::Id.in_subquery(expired))
            .exec(backend.database.write())
            .await?
            .rows_affected;
        swept += deleted;
        if deleted < BATCH {
            return Ok(swept);
        }
    }
}
