//! Custom attributes of listed projects.

use super::ProjectDetail;
use crate::accounts::custom_attributes;
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
    if rows.is_empty() {
        return Ok(());
    }
    let ids = rows.iter().map(|row| row.project.id);
    let Some(mut found) = custom_attributes::of_projects(backend, caller, ids).await? else {
        return Ok(());
    };
    for row in rows {
        row.custom_attributes = found.remove(&row.project.id).unwrap_or_default();
    }
    Ok(())
}
