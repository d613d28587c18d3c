//! The role a user has from above, below which no membership of their own may go.

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use super::Place;
use crate::entities::members::{self, Source};
use crate::entities::{AccessLevel, namespace_ancestors, namespaces, now, unexpired};
use crate::error::{Error, Result};

/// Refuses a role below the one that the user inherits.
///
/// # Errors
/// 400 that names the group the higher role comes from.
pub(super) async fn refuse_below(
    db: &impl ConnectionTrait,
    place: &Place,
    user_id: i64,
    level: AccessLevel,
) -> Result<()> {
    match highest_above(db, place.source, place.namespace.id, user_id).await? {
        Some((above, group)) if above > level => {
            let text = format!(
                "should be greater than or equal to {} inherited membership from group {group}",
                above.word()
            );
            Err(Error::attribute("access_level", text))
        }
        _ => Ok(()),
    }
}

/// The highest role that a user has as a member of a group above, and the name of the group.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn highest_above(
    db: &impl ConnectionTrait,
    source: Source,
    namespace_id: i64,
    user_id: i64,
) -> Result<Option<(AccessLevel, String)>> {
    let nearest = match source {
        Source::Group(_) => 1,
        Source::Project(_) => 0,
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
