//! Looks up the users, projects and groups that command-line arguments name.

use std::error::Error as StdError;

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::kernel::Backend;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use storage::entities::{namespaces, users};

use super::context::error_text;

/// Returns a user by ID or username.
pub(super) async fn user(backend: &Backend, reference: &str) -> Result<users::Model, Box<dyn StdError>> {
    let found = users::by_reference(backend.database.read(), reference).await?;
    found.ok_or_else(|| {
        format!("user {reference:?} does not exist; list the users with: holdfast admin users list").into()
    })
}

/// Returns the active administrator with the lowest ID, with whose permissions projects and groups are moved.
pub(super) async fn administrator(backend: &Backend) -> Result<Caller, Box<dyn StdError>> {
    let found = users::first_administrator(backend.database.read()).await?;
    found.map(Caller::user).ok_or_else(|| {
        "no active administrator exists; promote a user with: holdfast admin users promote USER".into()
    })
}

/// Returns a project by ID or full path, as the administrator sees it.
pub(super) async fn project(
    backend: &Backend,
    administrator: Caller,
    reference: &str,
) -> Result<ProjectAccess, Box<dyn StdError>> {
    match ProjectAccess::find(backend, administrator, reference).await {
        Err(Error::NotFound(_)) => Err(format!(
            "project {reference:?} does not exist; name a project by its ID or its full path, as NAMESPACE/NAME"
        )
        .into()),
        found => Ok(found.map_err(error_text)?),
    }
}

/// Returns a group or personal namespace by ID or full path.
pub(super) async fn namespace(
    backend: &Backend,
    reference: &str,
) -> Result<namespaces::Model, Box<dyn StdError>> {
    let found = namespaces::by_reference(backend.database.read(), reference).await?;
    found.ok_or_else(|| {
        format!(
            "namespace {reference:?} does not exist; name the full path of a group, or the username of a user"
        )
        .into()
    })
}

/// Returns a group by ID or full path, as the administrator sees it.
pub(super) async fn group(
    backend: &Backend,
    administrator: Caller,
    reference: &str,
) -> Result<GroupAccess, Box<dyn StdError>> {
    match GroupAccess::find(backend, administrator, reference).await {
        Err(Error::NotFound(_)) => Err(format!(
            "group {reference:?} does not exist; name a group by its ID or its full path, as GROUP/SUBGROUP"
        )
        .into()),
        found => Ok(found.map_err(error_text)?),
    }
}
