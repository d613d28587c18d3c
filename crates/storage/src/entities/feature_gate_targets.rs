//! For whom feature gates are open: each row names exactly one user, group, project or feature group.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// For whom feature gates are open: each row names exactly one user, group, project or feature group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "feature_gate_targets")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The gate.
    pub feature_gate_id: i64,
    /// The user, if it is one.
    pub user_id: Option<i64>,
    /// The group, if it is one.
    pub namespace_id: Option<i64>,
    /// The project, if it is one.
    pub project_id: Option<i64>,
    /// The name of the feature group, if it is one.
    pub feature_group: Option<String>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// For whom some gates are open, in the order in which that was said.
pub fn of_gates(gates: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::FeatureGateId.is_in(gates))
        .order_by_asc(Column::Id)
}
