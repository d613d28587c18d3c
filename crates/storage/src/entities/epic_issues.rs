//! Which issues epics gather: an issue is in one epic at most.

use sea_orm::entity::prelude::*;
use sea_orm::{Order, QueryOrder};

/// Which issues epics gather: an issue is in one epic at most.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "epic_issues")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The epic.
    pub epic_id: i64,
    /// The issue.
    pub issue_id: i64,
    /// Where it stands in the epic; lower comes first.
    pub relative_position: Option<i64>,
}

/// How the table relates to others.
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

/// The issues of an epic, in their order.
pub fn of(epic_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::EpicId.eq(epic_id))
        .order_by(Column::RelativePosition, Order::Asc)
        .order_by(Column::Id, Order::Asc)
}
