//! Archives and unarchives projects.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::now;

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Archives or unarchives a project; nothing is written if the state is unchanged.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn set_archived(backend: &Backend, access: ProjectAccess, archived: bool) -> Result<ProjectAccess> {
    if access.project.archived == archived {
        return Ok(access);
    }
    let mut row = access.project.into_active_model();
    row.archived = Set(archived);
    row.updated_at = Set(now());
    let project = row.update(backend.database.write()).await?;
    Ok(ProjectAccess { project, ..access })
}
