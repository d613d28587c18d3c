//! Shares of groups with other groups.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, Query};
use sea_orm::{QueryOrder, SelectTwo};

use super::access::{Viewer, visible_groups};
use super::related_rows::RelatedPart;
use super::{AccessLevel, ShareSummary, namespaces, unexpired};

/// Shares of groups with other groups.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "group_shares")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The shared group.
    pub namespace_id: i64,
    /// The group with access.
    pub with_group_id: i64,
    /// The maximum role of its members.
    pub access_level: AccessLevel,
    /// The date from which the share grants no access.
    pub expires_at: Option<NaiveDate>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The group with access.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::WithGroupId",
        to = "super::namespaces::Column::Id"
    )]
    WithGroup,
}

impl Related<namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::WithGroup.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns a part with the shares of a group with groups that are visible to the viewer, for [`ShareSummary::read`].
#[must_use]
pub fn part(viewer: Viewer, today: NaiveDate, namespace_id: i64) -> RelatedPart {
    let is_group = namespaces::Column::Id
        .into_expr()
        .eq(Column::WithGroupId.into_expr());
    let rows = Query::select()
        .from(Entity)
        .cross_join(namespaces::Entity)
        .and_where(is_group)
        .and_where(Column::NamespaceId.eq(namespace_id))
        .cond_where(visible_groups(viewer, today))
        .cond_where(unexpired((Entity, Column::ExpiresAt), today))
        .take();
    let part = RelatedPart::new(rows, Column::NamespaceId.into_expr()).sorted_by(Column::Id.into_expr());
    let (level, expires_at) = (Column::AccessLevel.into_expr(), Column::ExpiresAt.into_expr());
    ShareSummary::columns(part, level, expires_at)
}

/// Selects the shares of a group that have not expired, with the groups that have access, in creation order.
pub fn of(namespace_id: i64, today: NaiveDate) -> SelectTwo<Entity, namespaces::Entity> {
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .filter(unexpired((Entity, Column::ExpiresAt), today))
        .find_also_related(namespaces::Entity)
        .order_by_asc(Column::Id)
}
