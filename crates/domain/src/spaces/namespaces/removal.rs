//! Deletes a namespace with its content: hidden in one step, deleted in many.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::{namespace_ancestors, namespaces, now, projects};

use crate::accounts::avatars;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::spaces::projects::remove as remove_project;
use crate::transfers;

/// Hides a namespace, its subgroups and their projects. Returns false if it was hidden already.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn hide(transaction: &DatabaseTransaction, root: i64) -> Result<bool> {
    namespaces::lock_shape(transaction).await?;
    let hidden = namespaces::Entity::update_many()
        .col_expr(namespaces::Column::DeletionStartedAt, Expr::value(now()))
        .filter(namespaces::Column::Id.in_subquery(namespace_ancestors::at_or_below(root)))
        .filter(namespaces::Column::DeletionStartedAt.is_null())
        .exec(transaction)
        .await?;
    projects::Entity::update_many()
        .col_expr(projects::Column::DeletionStartedAt, Expr::value(now()))
        .filter(projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(root)))
        .filter(projects::Column::DeletionStartedAt.is_null())
        .exec(transaction)
        .await?;
    Ok(hidden.rows_affected > 0)
}

/// Deletes a hidden namespace with its subgroups, deepest first, so that an interrupted deletion can be
/// resumed.
///
/// # Errors
/// Returns an error if a database query or a file operation fails.
pub async fn remove_tree(backend: &Backend, root: i64) -> Result<()> {
    let ids = namespace_ancestors::descendant_ids(backend.database.read(), root).await?;
    for id in ids.into_iter().rev() {
        let found = projects::Entity::find()
            .filter(projects::Column::NamespaceId.eq(id))
            .order_by_asc(projects::Column::Id)
            .all(backend.database.read())
            .await?;
        for project in found {
            remove_project(backend, &project).await?;
        }
        avatars::remove(backend, avatars::Owner::Group(id)).await?;
        transfers::forget(backend, id).await?;
        namespaces::Entity::delete_by_id(id)
            .exec(backend.database.write())
            .await?;
    }
    Ok(())
}
