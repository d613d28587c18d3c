//! Subscriptions to merge requests.

use super::row::{self, MergeRequestDetail, MergeRequestInclude};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::planning::issuables::subscriptions::set_subscribed;

/// Subscribes or unsubscribes the caller.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `NotModified` if nothing changes.
pub async fn subscribe(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    subscribed: bool,
) -> Result<MergeRequestDetail> {
    let user_id = access.caller.signed_in()?.id;
    let mut detail = row::get(backend, access, iid, MergeRequestInclude::default()).await?;
    let extras = detail.extras.get_or_insert_default();
    let (db, current) = (backend.database.write(), &mut extras.subscribed);
    set_subscribed(db, &detail.merge_request, user_id, current, subscribed).await?;
    Ok(detail)
}
