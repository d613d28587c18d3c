//! Environment scopes of feature flag strategies.

use sea_orm::entity::prelude::*;
use sea_orm::{DbBackend, QueryOrder};

use super::row_conditions::is_among;

/// Environment scopes of feature flag strategies.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "feature_flag_scopes")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The strategy.
    pub strategy_id: i64,
    /// The environment scope: a name, with `*` for any text; unique within the strategy.
    pub environment_scope: String,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the scopes of strategies, oldest first.
pub fn of_strategies(database: DbBackend, strategies: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(is_among(database, Column::StrategyId.into_expr(), strategies))
        .order_by_asc(Column::Id)
}
