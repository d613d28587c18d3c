//! Archives and unarchives projects.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::{now, projects};

use crate::audit::{self, AuditEvent, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Archives or unarchives a project; nothing is written if the state is unchanged.
///
/// # Errors
/// Returns `NotFound` if the project was deleted concurrently.
pub async fn set_archived(backend: &Backend, access: ProjectAccess, archived: bool) -> Result<ProjectAccess> {
    let kind = match archived {
        true => AuditKind::ProjectArchived,
        false => AuditKind::ProjectUnarchived,
    };
    let event = AuditEvent::of(kind, access.audit_entity());
    let project = backend
        .database
        .transaction(async |transaction| {
            let current = projects::lock_for_insert(transaction, access.project.id).await?;
            let current = current.ok_or_else(|| Error::not_found("Project"))?;
            if current.archived == archived {
                return Ok(current);
            }
            audit::record(transaction, &access.caller, event).await?;
            let mut row = current.into_active_model();
            row.archived = Set(archived);
            row.updated_at = Set(now());
            Ok::<_, Error>(row.update(transaction).await?)
        })
        .await?;
    Ok(ProjectAccess { project, ..access })
}
