//! Feature gates that were set at least once; their targets are in [`super::feature_gate_targets`].

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Feature gates that were set at least once.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "feature_gates")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The name; unique.
    pub name: String,
    /// Whether it is open for all users.
    pub enabled: bool,
    /// The percentage of time for which it is open, from 0 to 100; none if not set.
    pub percentage_of_time: Option<i32>,
    /// The percentage of actors for which it is open, from 0 to 100; none if not set.
    pub percentage_of_actors: Option<i32>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When it or its targets were last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects all gates, oldest first.
pub fn all() -> Select<Entity> {
    Entity::find().order_by_asc(Column::Id)
}

/// Selects the gate of a name.
pub fn named(name: &str) -> Select<Entity> {
    Entity::find().filter(Column::Name.eq(name))
}
