//! Subscriptions to issues.

use super::row::{self, Row};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::subscriptions::say;

/// Subscribes the caller to an issue, or unsubscribes the caller.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist. Returns `Error::NotModified` if nothing changes.
pub async fn subscribe(backend: &Backend, access: &ProjectAccess, iid: i64, subscribed: bool) -> Result<Row> {
    let user_id = access.caller.signed_in()?.id;
    let mut row = row::read(backend, access, iid).await?;
    if row.subscribed == Some(subscribed) {
        return Err(Error::NotModified);
    }
    say(backend.database.write(), &row.issue, user_id, subscribed).await?;
    row.subscribed = Some(subscribed);
    Ok(row)
}
