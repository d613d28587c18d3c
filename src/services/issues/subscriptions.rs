//! Who is told of what happens to an issue.

use super::row::{self, Row};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::issuables::subscriptions::say;

/// Tells the caller of what happens to an issue, or ceases to.
///
/// # Errors
/// 404, and 304 where nothing changes by it.
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
