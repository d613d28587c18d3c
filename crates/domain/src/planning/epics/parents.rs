//! Rules for parents of epics.

use sea_orm::sea_query::SimpleExpr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect, QueryTrait};
use storage::entities::epics::{self, Column, Entity};
use storage::entities::{namespace_ancestors, namespaces, now};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};

/// Maximum number of ancestors of an epic.
pub(crate) const MAX_ANCESTORS: usize = 7;

/// Rejects an invalid parent. Locks the top-level group until the transaction ends, so that concurrent
/// changes of parents cannot create a cycle. Must run before any epic is locked, and after transfers are blocked.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the parent is hidden from the caller, outside of the group and its
/// ancestors, or a descendant of the epic. The same applies if the epic or one of its descendants would have more than
/// `MAX_ANCESTORS` ancestors.
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
    let too_deep = || Error::attribute("parent", "is nested too deeply");
    let mut next = Some(parent.ok_or_else(invalid)?.id);
    let mut ancestors = 0;
    while let Some(id) = next {
        if Some(id) == child {
            return Err(invalid());
        }
        ancestors += 1;
        if ancestors > MAX_ANCESTORS {
            return Err(too_deep());
        }
        let parent: Option<Option<i64>> = Entity::find_by_id(id)
            .select_only()
            .column(Column::ParentId)
            .into_tuple()
            .one(transaction)
            .await?;
        next = parent.flatten();
    }
    match child {
        Some(child) if has_descendant(transaction, child, MAX_ANCESTORS - ancestors + 1).await? => {
            Err(too_deep())
        }
        _ => Ok(()),
    }
}

/// Returns whether an epic has a descendant this many levels below, at least one.
async fn has_descendant(transaction: &DatabaseTransaction, epic: i64, levels: usize) -> Result<bool> {
    let children = |condition: SimpleExpr| Entity::find().select_only().column(Column::Id).filter(condition);
    let mut below = children(Column::ParentId.eq(epic));
    for _ in 1..levels {
        below = children(Column::ParentId.in_subquery(below.into_query()));
    }
    let found: Option<i64> = below.limit(1).into_tuple().one(transaction).await?;
    Ok(found.is_some())
}
