//! Which epic an epic may be a part of.

use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::epics::{self, Column, Entity};
use storage::entities::{namespace_ancestors, namespaces, now};

use crate::error::{Error, Result};
use crate::services::places::Place;

/// How many epics may be above one another.
pub(in crate::services) const DEEPEST: usize = 7;

/// Refuses a parent that does not do. Others who give parents within the same tree of groups wait until the transaction
/// ends, so that no two make a circle together; so this comes before any epic is locked.
///
/// # Errors
/// 400 for one that the caller may not see, of a group that is not above, or that is a part of the epic itself.
pub(super) async fn check(
    transaction: &DatabaseTransaction,
    place: &Place,
    child: Option<i64>,
    parent_id: i64,
) -> Result<()> {
    let above = namespace_ancestors::of(transaction, place.namespace.id).await?;
    let root = above.last().map_or(place.namespace.id, |row| row.ancestor_id);
    namespaces::lock(transaction, root).await?;
    let seen = Entity::find_by_id(parent_id)
        .filter(Column::NamespaceId.in_subquery(namespace_ancestors::at_or_above(place.namespace.id)))
        .filter(epics::visible(place.caller.viewer(), now().date_naive()))
        .one(transaction)
        .await?;
    let invalid = || Error::attribute("parent", "is invalid");
    let mut next = Some(seen.ok_or_else(invalid)?.id);
    for _ in 0..DEEPEST {
        let Some(id) = next else { return Ok(()) };
        if Some(id) == child {
            return Err(invalid());
        }
        let above: Option<Option<i64>> = Entity::find_by_id(id)
            .select_only()
            .column(Column::ParentId)
            .into_tuple()
            .one(transaction)
            .await?;
        next = above.flatten();
    }
    match next {
        None => Ok(()),
        Some(_) => Err(Error::attribute("parent", "is nested too deeply")),
    }
}
