//! Full paths of projects.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::{namespaces, projects};

use crate::kernel::error::Result;
use crate::kernel::urls;

/// Returns the full paths of projects by their IDs.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn paths_of(
    db: &impl ConnectionTrait,
    project_ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let found = projects::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(projects::Column::Id.is_in(project_ids))
        .all(db)
        .await?;
    let paths = found.into_iter().filter_map(|(project, namespace)| {
        let path = urls::project_path(&namespace?, &project);
        Some((project.id, path))
    });
    Ok(paths.collect())
}
