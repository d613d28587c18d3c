//! Avatars of groups.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{namespaces, now};

use crate::accounts::avatars::{AvatarOwner, HasAvatar};
use crate::identity::access::GroupAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

impl HasAvatar for GroupAccess {
    fn owner(&self) -> AvatarOwner {
        AvatarOwner::Group(self.group.id)
    }

    fn file_name(&self) -> Option<&str> {
        self.group.avatar.as_deref()
    }

    async fn save(self, backend: &Backend, file_name: Option<String>) -> Result<Self> {
        namespaces::Entity::update_many()
            .col_expr(namespaces::Column::Avatar, Expr::value(file_name))
            .col_expr(namespaces::Column::UpdatedAt, Expr::value(now()))
            .filter(namespaces::Column::Id.eq(self.group.id))
            .exec(backend.database.write())
            .await?;
        self.reload(backend).await
    }

    async fn reload(self, backend: &Backend) -> Result<Self> {
        let group = namespaces::not_deleted()
            .filter(namespaces::Column::Id.eq(self.group.id))
            .one(backend.database.write())
            .await?;
        let group = group.ok_or_else(|| Error::not_found("Group"))?;
        Ok(Self { group, ..self })
    }
}
