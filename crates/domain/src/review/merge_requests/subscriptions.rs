//! Subscriptions to a merge request and its participants.

use storage::entities::users;

use super::find;
use super::row::{self, Row, Wanted};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::planning::issuables;
use crate::planning::issuables::subscriptions::say;

/// Subscribes or unsubscribes the caller.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `NotModified` if nothing changes.
pub async fn subscribe(backend: &Backend, access: &ProjectAccess, iid: i64, subscribed: bool) -> Result<Row> {
    let user_id = access.caller.signed_in()?.id;
    let mut row = row::read(backend, access, iid, Wanted::default()).await?;
    let said = row.details.as_mut().map(|details| &mut details.subscribed);
    if let Some(said) = said {
        if *said == Some(subscribed) {
            return Err(Error::NotModified);
        }
        *said = Some(subscribed);
    }
    say(backend.database.write(), &row.merge_request, user_id, subscribed).await?;
    Ok(row)
}

/// Lists the author of a merge request, its assignees and its commenters, each once.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn participants(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<users::Model>> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    issuables::participants(db, &merge_request, page).await
}
