//! Cancels the delayed deletion of a project.

use chrono::NaiveDate;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{now, projects};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Removes the deletion mark of a project. The waiting job then finds no mark and skips the project.
///
/// # Errors
/// Returns `NotFound` if the deletion has started.
pub async fn restore(backend: &Backend, access: ProjectAccess) -> Result<ProjectAccess> {
    if access.project.marked_for_deletion_on.is_none() {
        return Ok(access);
    }
    let db = backend.database.write();
    let restored = projects::Entity::update_many()
        .col_expr(
            projects::Column::MarkedForDeletionOn,
            Expr::value(None::<NaiveDate>),
        )
        .col_expr(projects::Column::UpdatedAt, Expr::value(now()))
        .filter(projects::Column::Id.eq(access.project.id))
        .filter(projects::Column::DeletionStartedAt.is_null())
        .exec(db)
        .await?;
    let project = projects::live()
        .filter(projects::Column::Id.eq(access.project.id))
        .one(db)
        .await?
        .filter(|_| restored.rows_affected > 0)
        .ok_or_else(|| Error::not_found("Project"))?;
    Ok(ProjectAccess { project, ..access })
}
