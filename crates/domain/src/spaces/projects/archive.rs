//! Archives and unarchives projects.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::now;

use crate::audit::{self, AuditEvent, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Archives or unarchives a project; nothing is written if the state is unchanged.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn set_archived(backend: &Backend, access: ProjectAccess, archived: bool) -> Result<ProjectAccess> {
    if access.project.archived == archived {
        return Ok(access);
    }
    let kind = match archived {
        true => AuditKind::ProjectArchived,
        false => AuditKind::ProjectUnarchived,
    };
    let event = AuditEvent::of(kind, access.audit_entity());
    let mut row = access.project.into_active_model();
    row.archived = Set(archived);
    row.updated_at = Set(now());
    let project = backend
        .database
        .transaction(async |transaction| {
            audit::record(transaction, &access.caller, event).await?;
            Ok::<_, Error>(row.update(transaction).await?)
        })
        .await?;
    Ok(ProjectAccess { project, ..access })
}
