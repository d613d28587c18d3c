//! Making projects read-only and writable again (specification 3.2).

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::now;

use crate::error::Result;
use crate::services::Backend;
use crate::services::access::ProjectAccess;

/// Archives a project or makes it writable again; what is so already stays untouched.
///
/// # Errors
/// Whatever the database reports.
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
