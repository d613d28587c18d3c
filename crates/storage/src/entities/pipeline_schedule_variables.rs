//! Variables of pipeline schedules.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::ci_variables::VariableKind;

/// Variables of pipeline schedules.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "pipeline_schedule_variables")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The schedule.
    pub schedule_id: i64,
    /// The key.
    pub key: String,
    /// The value, encrypted for this key of this schedule.
    pub value_encrypted: String,
    /// How jobs receive the value.
    pub kind: VariableKind,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the variables of a schedule in creation order.
pub fn of_schedule(schedule_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ScheduleId.eq(schedule_id))
        .order_by_asc(Column::Id)
}
