//! Clusters. Each belongs to exactly one project or group.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Clusters. Each belongs to exactly one project or group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "clusters")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project, if it belongs to one.
    pub project_id: Option<i64>,
    /// The group, if it belongs to one.
    pub namespace_id: Option<i64>,
    /// The name.
    pub name: String,
    /// The base domain of its services.
    pub domain: Option<String>,
    /// The environment scope; unique within the project.
    pub environment_scope: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether namespaces in it may be created.
    pub managed: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the clusters of a project, oldest first.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
