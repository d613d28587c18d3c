//! Subscriptions to issues.

use super::row::{self, IssueDetail};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::planning::issuables::subscriptions::set_subscribed;

/// Subscribes the caller to an issue, or unsubscribes the caller.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist. Returns `Error::NotModified` if nothing changes.
pub async fn subscribe(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    subscribed: bool,
) -> Result<IssueDetail> {
    let user_id = access.caller.signed_in()?.id;
    let mut detail = row::get(backend, access, iid).await?;
    let (db, current) = (backend.database.write(), &mut detail.subscribed);
    set_subscribed(db, &detail.issue, user_id, current, subscribed).await?;
    Ok(detail)
}
