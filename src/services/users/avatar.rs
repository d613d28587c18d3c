//! The picture of a user. Everybody may see it, as everybody is told its address wherever the user is named.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, IntoActiveModel, QueryFilter};
use storage::entities::{now, users};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::avatars::{self, Owner, Picture};
use crate::services::kernel::download::Download;

/// Gives a user a picture, or takes it away.
///
/// # Errors
/// Whatever the storage reports.
pub async fn set_avatar(
    backend: &Backend,
    user: users::Model,
    picture: Option<Picture>,
) -> Result<users::Model> {
    let name = avatars::keep(backend, Owner::User(user.id), picture).await?;
    let mut row = user.into_active_model();
    row.avatar = Set(name);
    row.updated_at = Set(now());
    Ok(row.update(backend.database.write()).await?)
}

/// The picture of the user with this id, to be shown.
///
/// # Errors
/// 404 when there is no such user, or none of this name.
pub async fn avatar(backend: &Backend, user_id: i64, file_name: &str) -> Result<Download> {
    let found = users::live()
        .filter(users::Column::Id.eq(user_id))
        .one(backend.database.read())
        .await?;
    let user = found.ok_or_else(|| Error::not_found("File"))?;
    avatars::open(backend, Owner::User(user.id), user.avatar.as_deref(), file_name).await
}
