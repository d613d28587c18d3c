//! Deletes expired memberships and shares.

use chrono::NaiveDate;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use storage::entities::{group_shares, members, now, project_shares};

use crate::activity::events::{self, EventAction, NewEvent};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum number of rows that one statement deletes, so that other writers wait only briefly.
const BATCH: u64 = 500;

/// Deletes expired memberships and shares, and returns their number.
///
/// # Errors
/// Returns an error if a database query fails; rows deleted before that stay deleted.
pub async fn sweep_expired(backend: &Backend) -> Result<u64> {
    let today = now().date_naive();
    let mut swept = 0;
    loop {
        let removed = sweep_members(backend, today).await?;
        swept += removed;
        if removed < BATCH {
            break;
        }
    }
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
    sweep!(group_shares, project_shares);
    Ok(swept)
}

/// Deletes a batch of expired memberships, records an event for those of projects, and returns their number.
async fn sweep_members(backend: &Backend, today: NaiveDate) -> Result<u64> {
    backend
        .database
        .transaction(async |transaction| {
            let ended = members::Entity::find()
                .select_only()
                .column(members::Column::Id)
                .filter(members::Column::ExpiresAt.lte(today))
                .order_by_asc(members::Column::ExpiresAt)
                .limit(BATCH)
                .into_query();
            // Other nodes sweep as well. Only the node that deletes a row records the event.
            let removed = members::Entity::delete_many()
                .filter(members::Column::Id.in_subquery(ended))
                .exec_with_returning(transaction)
                .await?;
            for member in &removed {
                record_expired(transaction, member).await?;
            }
            u64::try_from(removed.len()).map_err(Error::internal)
        })
        .await
}

/// Records that a membership of a project has expired. The event has no acting user, so it is not an activity
/// of the project.
pub(super) async fn record_expired(transaction: &DatabaseTransaction, member: &members::Model) -> Result<()> {
    match member.project_id {
        Some(id) => {
            events::insert(
                transaction,
                NewEvent::new(id, member.user_id, EventAction::Expired),
            )
            .await
        }
        None => Ok(()),
    }
}
