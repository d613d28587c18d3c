//! Which merge requests were shipped with which deployment: each once to an environment.

use sea_orm::entity::prelude::*;

/// Which merge requests were shipped with which deployment.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deployment_merge_requests")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The deployment.
    pub deployment_id: i64,
    /// The environment that this was to.
    pub environment_id: i64,
    /// The merge request.
    pub merge_request_id: i64,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
