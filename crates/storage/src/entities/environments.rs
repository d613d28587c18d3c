//! Environments of projects.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// State of an environment, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum EnvironmentState {
    /// Available.
    Available,
    /// Stopped.
    Stopped,
}

/// Environments of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "environments")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name; unique within the project.
    pub name: String,
    /// The name in a form for URLs; unique within the project.
    pub slug: String,
    /// The external URL.
    pub external_url: Option<String>,
    /// The state.
    pub state: EnvironmentState,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the environments of a project, oldest first.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
