//! Variables that jobs of one pipeline get.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::ci_variables::Kind;

/// Variables that jobs of one pipeline get.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "pipeline_variables")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The pipeline it belongs to.
    pub pipeline_id: i64,
    /// What it is called.
    pub key: String,
    /// What it holds, encrypted for this key of this pipeline.
    pub value_encrypted: String,
    /// What jobs get of it.
    pub kind: Kind,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The variables of a pipeline in the order they were given.
pub fn of_pipeline(pipeline_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::PipelineId.eq(pipeline_id))
        .order_by_asc(Column::Id)
}
