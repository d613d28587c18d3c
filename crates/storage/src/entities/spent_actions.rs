//! What users did of which they may do only so much in a time.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// What users did of which they may do only so much in a time, kept as long as it counts.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "spent_actions")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Who did it.
    pub user_id: i64,
    /// What it was.
    pub action: String,
    /// When it was done.
    pub done_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// What a user did of one kind since an instant, the latest first.
pub fn since(user_id: i64, action: &str, instant: DateTime<Utc>) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .filter(Column::Action.eq(action))
        .filter(Column::DoneAt.gt(instant))
        .order_by_desc(Column::DoneAt)
        .order_by_desc(Column::Id)
}
