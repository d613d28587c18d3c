//! Deletes expired memberships and shares.

use chrono::NaiveDate;
use sea_orm::DatabaseTransaction;
use storage::entities::{members, now};

use super::{auditing, shares};
use crate::activity::events::{self, EventAction, NewEvent};
use crate::audit::{self, Actor};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::delete_expired;

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
    loop {
        let removed = shares::sweep_groups(backend, today, BATCH).await?;
        swept += removed;
        if removed < BATCH {
            break;
        }
    }
    loop {
        let removed = shares::sweep_projects(backend, today, BATCH).await?;
        swept += removed;
        if removed < BATCH {
            return Ok(swept);
        }
    }
}

/// Deletes a batch of expired memberships, records an event for those of projects, and returns their number.
async fn sweep_members(backend: &Backend, today: NaiveDate) -> Result<u64> {
    backend
        .database
        .transaction(async |transaction| {
            let columns = [members::Column::Id, members::Column::ExpiresAt];
            let removed = delete_expired::<members::Entity>(transaction, columns, today, BATCH).await?;
            record_expired(transaction, &removed).await?;
            u64::try_from(removed.len()).map_err(Error::internal)
        })
        .await
}

/// Records that memberships have expired. The events have no acting user, so they are no activity of the projects.
pub(super) async fn record_expired(
    transaction: &DatabaseTransaction,
    expired: &[members::Model],
) -> Result<()> {
    let removals = auditing::removals(transaction, expired).await?;
    audit::record_all(transaction, Actor::system(), removals).await?;
    for member in expired {
        if let Some(id) = member.project_id {
            let event = NewEvent::new(id, member.user_id, EventAction::Expired);
            events::insert(transaction, event).await?;
        }
    }
    Ok(())
}
