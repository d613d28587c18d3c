//! Avatars of projects.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{now, projects};

use crate::accounts::avatars::{AvatarOwner, HasAvatar};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

impl HasAvatar for ProjectAccess {
    fn owner(&self) -> AvatarOwner {
        AvatarOwner::Project(self.project.id)
    }

    fn file_name(&self) -> Option<&str> {
        self.project.avatar.as_deref()
    }

    async fn save(self, backend: &Backend, file_name: Option<String>) -> Result<Self> {
        projects::Entity::update_many()
            .col_expr(projects::Column::Avatar, Expr::value(file_name))
            .col_expr(projects::Column::UpdatedAt, Expr::value(now()))
            .filter(projects::Column::Id.eq(self.project.id))
            .exec(backend.database.write())
            .await?;
        self.reload(backend).await
    }

    async fn reload(self, backend: &Backend) -> Result<Self> {
        let project = projects::not_deleted()
            .filter(projects::Column::Id.eq(self.project.id))
            .one(backend.database.write())
            .await?;
        let project = project.ok_or_else(|| Error::not_found("Project"))?;
        Ok(Self { project, ..self })
    }
}
