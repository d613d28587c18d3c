//! Participants of an issue.

use storage::entities::users;

use super::find;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::planning::issuables;

/// Returns a page of the author, the assignees and the commenters of an issue, without duplicates.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist or the caller cannot see it.
pub async fn participants(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<users::Model>> {
    let db = backend.database.read();
    let issue = find(db, access, iid).await?;
    issuables::participants(db, &issue, page).await
}
