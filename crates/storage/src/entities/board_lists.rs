//! Lists of boards: each is of exactly one label, milestone or user.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Lists of boards: each is of exactly one label, milestone or user.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "board_lists")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The board.
    pub board_id: i64,
    /// The label, if it is of one.
    pub label_id: Option<i64>,
    /// The milestone, if it is of one.
    pub milestone_id: Option<i64>,
    /// The user, if it is of one.
    pub assignee_id: Option<i64>,
    /// Where it stands among the others; there may be gaps, where labels, milestones or users have gone away.
    pub position: i32,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
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

/// The lists of several boards, in their order on each.
pub fn of(board_ids: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::BoardId.is_in(board_ids))
        .order_by_asc(Column::Position)
        .order_by_asc(Column::Id)
}
