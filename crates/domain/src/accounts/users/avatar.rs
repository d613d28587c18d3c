//! Avatars of users. They are public, as their address is part of every representation of a user.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, IntoActiveModel, QueryFilter};
use storage::entities::{now, users};

use crate::accounts::avatars::{self, Owner, Picture};
use crate::kernel::Backend;
use crate::kernel::download::Download;
use crate::kernel::error::{Error, Result};

/// Sets or deletes the avatar of a user.
///
/// # Errors
/// Returns an error if the storage fails.
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

/// Returns the avatar of the user with this ID for download.
///
/// # Errors
/// Returns `NotFound` if the user does not exist or has no avatar with this name.
pub async fn avatar(backend: &Backend, user_id: i64, file_name: &str) -> Result<Download> {
    let found = users::live()
        .filter(users::Column::Id.eq(user_id))
        .one(backend.database.read())
        .await?;
    let user = found.ok_or_else(|| Error::not_found("File"))?;
    avatars::open(backend, Owner::User(user.id), user.avatar.as_deref(), file_name).await
}
