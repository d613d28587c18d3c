//! Authorization of a push again, after its body was received.

use super::repositories::{RepositoryPath, name_unknown};
use crate::identity::reauthorization::renew_access;
use crate::kernel::Backend;
use crate::kernel::error::Error;
use crate::registry::error::{RegistryError, RegistryErrorCode};
use crate::registry::permissions::{RegistryAction, denial_reason};

/// Checks that the caller may still push to the repository, by the current state of the database. The registry token
/// need not be valid any more, because it may expire during an upload.
///
/// # Errors
/// Returns `NAME_UNKNOWN` if the caller cannot see the project any more, and `DENIED` if the credentials are no longer
/// valid or the caller may not push.
pub(super) async fn check_push_again(
    backend: &Backend,
    repository_path: &RepositoryPath,
) -> Result<(), RegistryError> {
    let denied = |reason: &'static str| RegistryError::new(RegistryErrorCode::Denied, reason);
    let access = match renew_access(backend, &repository_path.access).await {
        Err(error)
            if error.is_forbidden() || matches!(error, Error::Unauthorized | Error::InvalidToken(_)) =>
        {
            return Err(denied("the credentials are no longer valid"));
        }
        Err(Error::NotFound(_)) => return Err(name_unknown(&repository_path.name)),
        access => access?,
    };
    match denial_reason(&access, RegistryAction::Push) {
        Some(reason) => Err(denied(reason)),
        None => Ok(()),
    }
}
