//! Variables of pipelines.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::ci_variables::VariableKind;

/// Variables of pipelines.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "pipeline_variables")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The pipeline.
    pub pipeline_id: i64,
    /// The key.
    pub key: String,
    /// The value, encrypted for this key of this pipeline.
    pub value_encrypted: String,
    /// How jobs receive the value.
    pub kind: VariableKind,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the variables of a pipeline in insertion order.
pub fn of_pipeline(pipeline_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::PipelineId.eq(pipeline_id))
        .order_by_asc(Column::Id)
}
