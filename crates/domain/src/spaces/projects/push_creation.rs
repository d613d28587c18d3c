//! Creates a project when a user first pushes to its path.

use storage::entities::{Visibility, namespaces};

use super::create::{NewProject, create};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};

/// Creates a private project at a full path where no project is visible to the caller.
///
/// # Errors
/// Returns `NotFound`, as for a missing project, if the path is taken or not valid, or if the caller cannot create
/// projects in the namespace. Returns `Forbidden` beyond the project limit of the caller.
pub async fn create_for_push(backend: &Backend, caller: &Caller, full_path: &str) -> Result<ProjectAccess> {
    let missing = || Error::not_found("Project");
    let (above, path) = full_path.rsplit_once('/').ok_or_else(missing)?;
    // A job token is valid only for its own project.
    if caller.job_project().is_some() || full_path.contains('\0') {
        return Err(missing());
    }
    let namespace = namespaces::by_full_path(backend.database.read(), above).await?;
    let new = NewProject {
        path: Some(path.to_owned()),
        namespace_id: Some(namespace.ok_or_else(missing)?.id),
        visibility: Some(Visibility::Private),
        ..NewProject::default()
    };
    create(backend, caller, new).await.map_err(|error| match error {
        Error::InvalidAttributes(_) => missing(),
        other => other,
    })
}
