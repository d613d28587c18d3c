//! Avatars of projects.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{now, projects};

use crate::accounts::avatars::{self, Owner};
use crate::accounts::uploads::UploadedFile;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::download::Download;
use crate::kernel::error::{Error, Result};

/// Sets or deletes the avatar of a project.
///
/// # Errors
/// Returns a validation error if the file is too large or not an image that browsers display.
pub async fn set_avatar(
    backend: &Backend,
    access: ProjectAccess,
    picture: Option<UploadedFile>,
) -> Result<ProjectAccess> {
    let picture = avatars::checked(picture).await?;
    let name = avatars::keep(backend, Owner::Project(access.project.id), picture).await?;
    let db = backend.database.write();
    projects::Entity::update_many()
        .col_expr(projects::Column::Avatar, Expr::value(name))
        .col_expr(projects::Column::UpdatedAt, Expr::value(now()))
        .filter(projects::Column::Id.eq(access.project.id))
        .exec(db)
        .await?;
    let project = projects::live()
        .filter(projects::Column::Id.eq(access.project.id))
        .one(db)
        .await?;
    let project = project.ok_or_else(|| Error::not_found("Project"))?;
    Ok(ProjectAccess { project, ..access })
}

/// Returns the avatar of a project for download.
///
/// # Errors
/// Returns `NotFound` if the project has no avatar with this name.
pub async fn avatar(backend: &Backend, access: &ProjectAccess, file_name: &str) -> Result<Download> {
    let project = &access.project;
    let owner = Owner::Project(project.id);
    avatars::open(backend, owner, project.avatar.as_deref(), file_name).await
}
