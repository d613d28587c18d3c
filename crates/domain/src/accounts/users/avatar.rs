//! Avatars of users. They are public, as their address is part of every representation of a user.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{now, users};

use super::identicon;
use crate::accounts::avatars::{self, AvatarOwner, HasAvatar};
use crate::accounts::uploads;
use crate::kernel::Backend;
use crate::kernel::download::{Download, DownloadContent};
use crate::kernel::error::{Error, Result};
use crate::kernel::urls::IDENTICON;

impl HasAvatar for users::Model {
    fn owner(&self) -> AvatarOwner {
        AvatarOwner::User(self.id)
    }

    fn file_name(&self) -> Option<&str> {
        self.avatar.as_deref()
    }

    async fn save(self, backend: &Backend, file_name: Option<String>) -> Result<Self> {
        users::Entity::update_many()
            .col_expr(users::Column::Avatar, Expr::value(file_name))
            .col_expr(users::Column::UpdatedAt, Expr::value(now()))
            .filter(users::Column::Id.eq(self.id))
            .exec(backend.database.write())
            .await?;
        self.reload(backend).await
    }

    async fn reload(self, backend: &Backend) -> Result<Self> {
        let user = users::not_deleted()
            .filter(users::Column::Id.eq(self.id))
            .one(backend.database.write())
            .await?;
        user.ok_or_else(|| Error::not_found("User"))
    }
}

/// Returns the avatar of the user with this ID for download, or the image that is generated for a user without one.
///
/// # Errors
/// Returns `NotFound` if the user does not exist or has no avatar with this name.
pub async fn avatar(backend: &Backend, user_id: i64, file_name: &str) -> Result<Download> {
    let found = users::not_deleted()
        .filter(users::Column::Id.eq(user_id))
        .one(backend.database.read())
        .await?;
    let user = found.ok_or_else(|| Error::not_found("File"))?;
    if file_name != IDENTICON {
        return avatars::open(backend, &user, file_name).await;
    }
    Ok(Download {
        content_type: "image/svg+xml".to_owned(),
        file_name: IDENTICON.to_owned(),
        attachment: false,
        etag: None,
        headers: uploads::safe_headers(),
        content: DownloadContent::Bytes(identicon::svg(user.id).into()),
    })
}
