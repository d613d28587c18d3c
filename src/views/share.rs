//! Groups that have access to a project.

use storage::entities::project_shares::Model;

use crate::api::contract::ProjectShare;

/// The access of a group to a project.
#[must_use]
pub fn share(row: &Model) -> ProjectShare {
    ProjectShare {
        id: row.id,
        project_id: row.project_id,
        group_id: row.group_id,
        group_access: i64::from(i32::from(row.access_level)),
        expires_at: row.expires_at,
    }
}
