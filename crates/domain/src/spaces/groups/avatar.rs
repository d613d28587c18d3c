//! Avatars of groups.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{namespaces, now};

use crate::accounts::avatars::{self, Owner, Picture};
use crate::identity::access::GroupAccess;
use crate::kernel::Backend;
use crate::kernel::download::Download;
use crate::kernel::error::{Error, Result};

/// Sets or removes the avatar of a group.
///
/// # Errors
/// Returns an error if the storage fails. Returns `Error::NotFound` if the group is being deleted.
pub async fn set_avatar(
    backend: &Backend,
    access: GroupAccess,
    picture: Option<Picture>,
) -> Result<GroupAccess> {
    let name = avatars::keep(backend, Owner::Group(access.group.id), picture).await?;
    let db = backend.database.write();
    namespaces::Entity::update_many()
        .col_expr(namespaces::Column::Avatar, Expr::value(name))
        .col_expr(namespaces::Column::UpdatedAt, Expr::value(now()))
        .filter(namespaces::Column::Id.eq(access.group.id))
        .exec(db)
        .await?;
    let group = namespaces::live()
        .filter(namespaces::Column::Id.eq(access.group.id))
        .one(db)
        .await?;
    let group = group.ok_or_else(|| Error::not_found("Group"))?;
    Ok(GroupAccess { group, ..access })
}

/// Opens the avatar of a group.
///
/// # Errors
/// Returns `Error::NotFound` if the group has no avatar with this name.
pub async fn avatar(backend: &Backend, access: &GroupAccess, file_name: &str) -> Result<Download> {
    let group = &access.group;
    avatars::open(
        backend,
        Owner::Group(group.id),
        group.avatar.as_deref(),
        file_name,
    )
    .await
}
