//! Rules for parents of epics.

use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::epics::{self, Column, Entity};
use storage::entities::{namespace_ancestors, namespaces, now};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};

/// Maximum number of ancestors of an epic.
pub(crate) const MAX_ANCESTORS: usize = 7;

/// Rejects an invalid parent. Locks the top-level group until the transaction ends, so that concurrent
/// changes of parents cannot create a cycle. Must run before any epic is locked.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the parent is hidden from the caller, outside of the group and its
/// ancestors, or a descendant of the epic. The same applies to a chain of more than `MAX_ANCESTORS` parents.
pub(super) async fn check(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    child: Option<i64>,
    parent_id: i64,
) -> Result<()> {
    let ancestors = namespace_ancestors::of(transaction, space.namespace.id).await?;
    let root = ancestors.last().map_or(space.namespace.id, |row| row.ancestor_id);
    namespaces::lock(transaction, root).await?;
    let parent = Entity::find_by_id(parent_id)
        .filter(Column::NamespaceId.in_subquery(namespace_ancestors::at_or_above(space.namespace.id)))
        .filter(epics::visible(space.caller.viewer(), now().date_naive()))
        .one(transaction)
        .await?;
    let invalid = || Error::attribute("parent", "is invalid");
    let mut next = Some(parent.ok_or_else(invalid)?.id);
    for _ in 0..MAX_ANCESTORS {
        let Some(id) = next else { return Ok(()) };
        if Some(id) == child {
            return Err(invalid());
        }
        let parent: Option<Option<i64>> = Entity::find_by_id(id)
            .select_only()
            .column(Column::ParentId)
            .into_tuple()
            .one(transaction)
            .await?;
        next = parent.flatten();
    }
    match next {
        None => Ok(()),
        Some(_) => Err(Error::attribute("parent", "is nested too deeply")),
    }
}
