//! Deletion of a hidden namespace with its content, in steps that can be repeated.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::{namespace_ancestors, namespaces, projects};

use crate::accounts::avatars;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::lifecycle::deletion::projects::delete_with_files;
use crate::lifecycle::deletion::rows::{self, RowOwner};
use crate::transfers;

/// Deletes a hidden namespace with its subgroups, deepest first, so that an interrupted deletion can be
/// resumed.
///
/// # Errors
/// Returns an error if a database query or a file operation fails.
pub(super) async fn delete_tree(backend: &Backend, root: i64) -> Result<()> {
    let ids = namespace_ancestors::descendant_ids(backend.database.read(), root).await?;
    for id in ids.into_iter().rev() {
        let projects = projects::Entity::find()
            .filter(projects::Column::NamespaceId.eq(id))
            .order_by_asc(projects::Column::Id)
            .all(backend.database.read())
            .await?;
        for project in projects {
            delete_with_files(backend, &project).await?;
        }
        avatars::remove(backend, avatars::AvatarOwner::Group(id)).await?;
        transfers::delete_archives(backend, id).await?;
        rows::delete_all(backend, RowOwner::Namespace(id)).await?;
        namespaces::Entity::delete_by_id(id)
            .exec(backend.database.write())
            .await?;
    }
    Ok(())
}
