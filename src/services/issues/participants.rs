//! Those who take part in an issue.

use storage::entities::users;

use super::find;
use crate::error::Result;
use crate::services::access::ProjectAccess;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::{Backend, issuables};

/// The author of an issue, those it is assigned to, and those who commented on it, each once.
///
/// # Errors
/// 404, also where the caller may not see the issue.
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
