//! Number and sizes of all repositories, for metrics.

use sea_orm::sea_query::Expr;
use sea_orm::{EntityTrait, ExprTrait, FromQueryResult, QuerySelect};
use storage::entities::projects;

use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Sizes of all repositories of the instance. Jobs store the size of each repository after changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromQueryResult)]
pub struct RepositorySizes {
    /// Number of projects, each of which has a repository.
    pub repositories: i64,
    /// Total size in bytes.
    pub total_bytes: i64,
    /// Size of the largest repository in bytes.
    pub largest_bytes: i64,
}

/// Returns the sizes, in one statement that reads all projects.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn repository_sizes(backend: &Backend) -> Result<RepositorySizes> {
    let size = || Expr::col((projects::Entity, projects::Column::RepositorySize));
    let found = projects::Entity::find()
        .select_only()
        .column_as(
            Expr::col((projects::Entity, projects::Column::Id)).count(),
            "repositories",
        )
        .column_as(size().sum().if_null(0).cast_as("bigint"), "total_bytes")
        .column_as(size().max().if_null(0), "largest_bytes")
        .into_model::<RepositorySizes>()
        .one(backend.database.read())
        .await?;
    Ok(found.unwrap_or_default())
}
