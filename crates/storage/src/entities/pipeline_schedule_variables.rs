//! Variables that the pipelines of a schedule get (specification 2.7).

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::ci_variables::Kind;

/// Variables that the pipelines of a schedule get.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "pipeline_schedule_variables")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The schedule it belongs to.
    pub schedule_id: i64,
    /// What it is called.
    pub key: String,
    /// What it holds, encrypted for this key of this schedule.
    pub value_encrypted: String,
    /// What jobs get of it.
    pub kind: Kind,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The variables of a schedule in the order they were made.
pub fn of_schedule(schedule_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ScheduleId.eq(schedule_id))
        .order_by_asc(Column::Id)
}
