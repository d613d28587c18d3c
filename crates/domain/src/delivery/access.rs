//! Access to pipelines, deployments and environments.

use crate::code::repository_access::has_repository;
use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// Returns whether pipelines of the project are visible to the caller. They are visible to members who can
/// read the code, and to others if the project has public pipelines.
#[must_use]
pub fn can_read_pipelines(access: &ProjectAccess) -> bool {
    let project = &access.project;
    access.effective_access().has_feature(project.builds_access_level)
        && access.can_read_code()
        && (project.public_jobs || access.has_role(Role::Reporter))
}

/// Refuses callers who cannot see the pipelines of the project.
///
/// # Errors
/// Returns `Forbidden` for such callers.
pub fn check_can_read(access: &ProjectAccess) -> Result<()> {
    match can_read_pipelines(access) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// Refuses callers below Developer. Refuses all callers if pipelines or the repository are disabled, or the
/// project is archived.
///
/// # Errors
/// Returns `Forbidden` for refused callers.
pub fn check_can_create(access: &ProjectAccess) -> Result<()> {
    let has_pipelines = access
        .effective_access()
        .has_feature(access.project.builds_access_level)
        && has_repository(access);
    match has_pipelines && !access.project.archived && access.has_role(Role::Developer) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// Refuses callers who cannot see the environments and deployments of the project.
///
/// # Errors
/// Returns `Forbidden` for such callers.
pub fn check_can_read_deployments(access: &ProjectAccess) -> Result<()> {
    check_can_read(access)?;
    access.check_environments()
}

/// Refuses callers who cannot change the environments and deployments of the project.
///
/// # Errors
/// Returns `Forbidden` as [`check_can_create`], and if the environments are not available to the caller.
pub fn check_can_create_deployments(access: &ProjectAccess) -> Result<()> {
    check_can_create(access)?;
    access.check_environments()
}
