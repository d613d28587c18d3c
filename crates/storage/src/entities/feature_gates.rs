//! Feature gates that were ever set (specification 2.14); for whom they are open is in [`super::feature_gate_targets`].

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Feature gates that were ever set.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "feature_gates")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What it is called; unique.
    pub name: String,
    /// Whether it is open for everybody.
    pub enabled: bool,
    /// For which share of the time it is open, from 0 to 100; none when that was not set.
    pub percentage_of_time: Option<i32>,
    /// For which share of the actors it is open, from 0 to 100; none when that was not set.
    pub percentage_of_actors: Option<i32>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last, or for whom it is open.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// All gates, the oldest first.
pub fn all() -> Select<Entity> {
    Entity::find().order_by_asc(Column::Id)
}

/// The gate of a name.
pub fn named(name: &str) -> Select<Entity> {
    Entity::find().filter(Column::Name.eq(name))
}
