//! The environments in which strategies of feature flags count.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// The environments in which strategies of feature flags count.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "feature_flag_scopes")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The strategy.
    pub strategy_id: i64,
    /// A name, with `*` for any text; unique within the strategy.
    pub environment_scope: String,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The scopes of some strategies, the oldest first.
pub fn of_strategies(strategies: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::StrategyId.is_in(strategies))
        .order_by_asc(Column::Id)
}
