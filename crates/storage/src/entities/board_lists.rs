//! Lists of boards. Each has exactly one label, milestone or assignee.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Lists of boards. Each has exactly one label, milestone or assignee.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "board_lists")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The board.
    pub board_id: i64,
    /// The label, if the list has one.
    pub label_id: Option<i64>,
    /// The milestone, if the list has one.
    pub milestone_id: Option<i64>,
    /// The assignee, if the list has one.
    pub assignee_id: Option<i64>,
    /// The position among the lists; there may be gaps, because labels, milestones or users were deleted.
    pub position: i32,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The label.
    #[sea_orm(
        belongs_to = "super::labels::Entity",
        from = "Column::LabelId",
        to = "super::labels::Column::Id"
    )]
    Label,
}

impl Related<super::labels::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Label.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the lists of several boards, in their order on each.
pub fn of(board_ids: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::BoardId.is_in(board_ids))
        .order_by_asc(Column::Position)
        .order_by_asc(Column::Id)
}
