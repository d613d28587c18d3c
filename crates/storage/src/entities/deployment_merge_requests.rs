//! Merge requests of deployments; each is linked once per environment.

use sea_orm::entity::prelude::*;

/// Merge requests of deployments.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "deployment_merge_requests")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The deployment.
    pub deployment_id: i64,
    /// The environment of the deployment.
    pub environment_id: i64,
    /// The merge request.
    pub merge_request_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
