//! Rate-limited actions of users.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use crate::clock::scheduling_time;

/// Rate-limited actions of users within the counted period.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "spent_actions")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The kind of action.
    pub action: String,
    /// When it happened.
    pub done_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects a user's actions of one kind since `instant`, latest first. Rows from before the clock was set
/// back do not count.
pub fn since(user_id: i64, action: &str, instant: DateTime<Utc>) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .filter(Column::Action.eq(action))
        .filter(Column::DoneAt.gt(instant))
        .filter(Column::DoneAt.lte(scheduling_time() + super::MAX_CLOCK_DIFFERENCE))
        .order_by_desc(Column::DoneAt)
        .order_by_desc(Column::Id)
}
