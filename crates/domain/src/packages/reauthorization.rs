//! Authorization of an upload again, after its content was stored.

use super::access::check_access;
use crate::identity::access::{OperationRule, ProjectAccess};
use crate::identity::reauthorization::renew_access;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::policy::{AccessRule, InstancePlan, MinimumAccess, ResourceKind};

/// Rule of all operations that upload packages, as in the contract.
pub const UPLOAD: OperationRule<'static> = OperationRule {
    access: AccessRule {
        on: ResourceKind::Project,
        min: MinimumAccess::Developer,
        anonymous: false,
        archived: false,
        first: true,
    },
    scopes: &["api", "write_package_registry"],
    tier: InstancePlan::Free,
    flag: None,
    deferred: None,
    job_token: true,
    package_client: true,
    read: false,
};

/// Returns the access of the caller by the current state of the database. To store the content of an upload can take
/// minutes.
///
/// # Errors
/// Returns `Unauthorized` or `InvalidToken` if the credentials are no longer valid, and `NotFound` if the caller cannot
/// see the project any more. Returns `Forbidden` or `InsufficientScope` if the caller may not upload packages any more.
pub(super) async fn authorize_again(backend: &Backend, access: &ProjectAccess) -> Result<ProjectAccess> {
    let access = renew_access(backend, access).await?;
    access.check(backend, &UPLOAD).await?;
    check_access(&access)?;
    Ok(access)
}
