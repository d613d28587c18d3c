//! Instance IDs with which SDKs read the feature flags of a project.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Instance IDs with which SDKs read the feature flags of a project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "feature_flags_clients")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project; unique.
    pub project_id: i64,
    /// The SHA-256 of the instance ID in hex.
    pub digest: String,
    /// The instance ID, encrypted for this row; it can be read again.
    pub instance_id_encrypted: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the row of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}
