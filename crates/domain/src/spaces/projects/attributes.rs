//! Custom attributes of listed projects.

use storage::entities::custom_attributes;

use super::ProjectDetail;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;

/// Loads the custom attributes of projects in one statement. Callers who may not see them get none.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn add_custom_attributes(
    backend: &Backend,
    caller: &Caller,
    rows: &mut [ProjectDetail],
) -> Result<()> {
    if rows.is_empty() || !caller.is_admin() {
        return Ok(());
    }
    let ids = rows.iter().map(|row| row.project.id);
    let found = custom_attributes::of_projects(backend.database.read(), ids).await?;
    for row in rows {
        let own = found.iter().filter(|one| one.project_id == Some(row.project.id));
        row.custom_attributes = own.cloned().collect();
    }
    Ok(())
}
