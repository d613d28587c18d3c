//! Renewed authorization of a caller during a long request.

use crate::identity::access::ProjectAccess;
use crate::identity::authentication::identify_again;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Returns the access of the caller to the project, by the current state of the database. The project may have been
/// renamed or transferred.
///
/// # Errors
/// Returns the errors of [`identify_again`], and `Error::NotFound` if the caller can no longer see the project.
pub async fn renew_access(backend: &Backend, access: &ProjectAccess) -> Result<ProjectAccess> {
    let caller = identify_again(backend, &access.caller).await?;
    ProjectAccess::find(backend, caller, &access.project.id.to_string()).await
}
