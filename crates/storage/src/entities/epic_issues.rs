//! Issues of epics. An issue is in at most one epic.

use sea_orm::entity::prelude::*;
use sea_orm::{Order, QueryOrder};

/// Issues of epics. An issue is in at most one epic.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "epic_issues")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The epic.
    pub epic_id: i64,
    /// The issue.
    pub issue_id: i64,
    /// The position in the epic, ascending.
    pub relative_position: Option<i64>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The issue.
    #[sea_orm(
        belongs_to = "super::issues::Entity",
        from = "Column::IssueId",
        to = "super::issues::Column::Id"
    )]
    Issue,
}

impl Related<super::issues::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Issue.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the issues of an epic in their order.
pub fn of(epic_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::EpicId.eq(epic_id))
        .order_by(Column::RelativePosition, Order::Asc)
        .order_by(Column::Id, Order::Asc)
}
