//! Sweeping away memberships and shares that have ended.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use crate::entities::{group_shares, members, now, project_shares};
use crate::error::Result;
use crate::services::Backend;

/// Most rows that one statement removes, so that no writer waits long.
const BATCH: u64 = 1_000;

/// Removes the memberships and shares that have ended; gives their number.
///
/// # Errors
/// Whatever the database reports; what was removed by then stays so.
pub async fn sweep_expired(backend: &Backend) -> Result<u64> {
    let today = now().date_naive();
    let mut swept = 0;
    macro_rules! sweep {
        ($($table:ident),*) => {$(
            loop {
                let ended = $table::Entity::find()
                    .select_only()
                    .column($table::Column::Id)
                    .filter($table::Column::ExpiresAt.lte(today))
                    .order_by_asc($table::Column::ExpiresAt)
                    .limit(BATCH)
                    .into_query();
                let removed = $table::Entity::delete_many()
                    .filter($table::Column::Id.in_subquery(ended))
                    .exec(backend.database.write())
                    .await?
                    .rows_affected;
                swept += removed;
                if removed < BATCH {
                    break;
                }
            }
        )*};
    }
    sweep!(members, group_shares, project_shares);
    Ok(swept)
}
