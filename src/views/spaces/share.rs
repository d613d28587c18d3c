//! Shares of projects with groups.

use storage::entities::project_shares::Model;

use contract::ProjectShare;

/// Returns a share of a project with a group.
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
