//! Statistics of projects.

use storage::entities::AccessLevel;
use storage::entities::package_files;

use super::ProjectDetail;
use crate::code::repository_access::commit_count;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Counts the commits of a project for its statistics, since maintenance may not have run after the last
/// push.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub async fn load_commit_count(backend: &Backend, row: &mut ProjectDetail) -> Result<()> {
    if row.effective_access.has_role(AccessLevel::Reporter) {
        row.project.commit_count = commit_count(backend, &row.project).await?;
    }
    Ok(())
}

/// Loads the total sizes of the files of packages of projects, in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn load_packages_sizes(backend: &Backend, rows: &mut [ProjectDetail]) -> Result<()> {
    let counted = rows
        .iter_mut()
        .filter(|row| row.effective_access.has_role(AccessLevel::Reporter));
    let mut counted: Vec<&mut ProjectDetail> = counted.collect();
    if counted.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = counted.iter().map(|row| row.project.id).collect();
    let sizes = package_files::total_sizes(backend.database.read(), &ids).await?;
    for row in &mut counted {
        row.packages_size = sizes.get(&row.project.id).copied().unwrap_or_default();
    }
    Ok(())
}
