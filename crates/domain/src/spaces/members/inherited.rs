//! Roles inherited from ancestor groups. A membership cannot have a lower role than the inherited one.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};
use storage::entities::members::{self, MembershipSource};
use storage::entities::{AccessLevel, namespace_ancestors, namespaces, now, unexpired};

use super::MemberSource;
use crate::kernel::error::{Error, Result};

/// Refuses a role below the one that the user inherits.
///
/// # Errors
/// Returns a validation error that names the group of the higher role.
pub(super) async fn check_not_below(
    db: &impl ConnectionTrait,
    member_source: &MemberSource,
    user_id: i64,
    level: AccessLevel,
) -> Result<()> {
    match highest_inherited(db, member_source.source, member_source.namespace.id, user_id).await? {
        Some((above, group)) if above > level => {
            let text = format!(
                "should be greater than or equal to {} inherited membership from group {group}",
                above.name()
            );
            Err(Error::attribute("access_level", text))
        }
        _ => Ok(()),
    }
}

/// Returns the highest roles of users in the ancestors of a group. Users without such a role are absent.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn inherited_levels(
    db: &impl ConnectionTrait,
    group_id: i64,
    user_ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, AccessLevel>> {
    let rows: Vec<(i64, AccessLevel)> = members::Entity::find()
        .select_only()
        .columns([members::Column::UserId, members::Column::AccessLevel])
        .filter(members::Column::UserId.is_in(user_ids))
        .filter(members::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_above(group_id)))
        .filter(members::Column::NamespaceId.ne(group_id))
        .filter(unexpired(members::Column::ExpiresAt, now().date_naive()))
        .into_tuple()
        .all(db)
        .await?;
    let mut highest = HashMap::new();
    for (user_id, level) in rows {
        let known = highest.entry(user_id).or_insert(level);
        *known = level.max(*known);
    }
    Ok(highest)
}

/// Returns a role or the user's inherited role, depending on which is higher.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn at_least_inherited(
    db: &impl ConnectionTrait,
    group_id: i64,
    user_id: i64,
    level: AccessLevel,
) -> Result<AccessLevel> {
    let above = highest_inherited(db, MembershipSource::Group(group_id), group_id, user_id).await?;
    Ok(above.map_or(level, |(above, _)| above.max(level)))
}

/// Returns the highest inherited role of a user and the name of its group.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn highest_inherited(
    db: &impl ConnectionTrait,
    source: MembershipSource,
    namespace_id: i64,
    user_id: i64,
) -> Result<Option<(AccessLevel, String)>> {
    let nearest = match source {
        MembershipSource::Group(_) => 1,
        MembershipSource::Project(_) => 0,
    };
    let above = namespace_ancestors::Entity::find()
        .select_only()
        .column(namespace_ancestors::Column::AncestorId)
        .filter(namespace_ancestors::Column::NamespaceId.eq(namespace_id))
        .filter(namespace_ancestors::Column::Depth.gte(nearest));
    let highest = members::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(members::Column::UserId.eq(user_id))
        .filter(members::Column::NamespaceId.in_subquery(above.into_query()))
        .filter(unexpired(members::Column::ExpiresAt, now().date_naive()))
        .order_by_desc(members::Column::AccessLevel)
        .one(db)
        .await?;
    Ok(highest.and_then(|(member, group)| Some((member.access_level, group?.name))))
}
