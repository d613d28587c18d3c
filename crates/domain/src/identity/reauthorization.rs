//! Authorization of a caller again, during a request that takes long.

use crate::identity::access::ProjectAccess;
use crate::identity::authentication::identify_again;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Returns the access of the caller to the project, by the current state of the database. The project may have been
/// renamed or transferred.
///
/// # Errors
/// Returns the errors of [`identify_again`], and `Error::NotFound` if the caller cannot see the project any more.
pub async fn renew_access(backend: &Backend, access: &ProjectAccess) -> Result<ProjectAccess> {
    let caller = identify_again(backend, &access.caller).await?;
    ProjectAccess::find(backend, caller, &access.project.id.to_string()).await
}
