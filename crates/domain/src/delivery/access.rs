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
    access.standing().has(project.builds_access_level)
        && access.can_read_code()
        && (project.public_jobs || access.holds(Role::Reporter))
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
    let there = access.standing().has(access.project.builds_access_level) && has_repository(access);
    match there && !access.project.archived && access.holds(Role::Developer) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}
