//! Who takes part in a merge request, and who is told of what happens to it.

use storage::entities::users;

use super::find;
use super::row::{self, Row, Wanted};
use crate::error::{Error, Result};
use crate::services::access::ProjectAccess;
use crate::services::issuables::subscriptions::say;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::{Backend, issuables};

/// Tells the caller of what happens to a merge request, or ceases to.
///
/// # Errors
/// 404, and 304 where nothing changes by it.
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

/// The author of a merge request, those it is assigned to, and those who commented on it, each once.
///
/// # Errors
/// 404, also where the caller may not see the merge request.
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
