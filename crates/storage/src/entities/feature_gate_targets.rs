//! Targets of feature gates. Each is exactly one user, group, project or feature group.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Targets of feature gates. Each is exactly one user, group, project or feature group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "feature_gate_targets")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The gate.
    pub feature_gate_id: i64,
    /// The user, if the target is one.
    pub user_id: Option<i64>,
    /// The group, if the target is one.
    pub namespace_id: Option<i64>,
    /// The project, if the target is one.
    pub project_id: Option<i64>,
    /// The name of the feature group, if the target is one.
    pub feature_group: Option<String>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the targets of gates in insertion order.
pub fn of_gates(gates: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::FeatureGateId.is_in(gates))
        .order_by_asc(Column::Id)
}
