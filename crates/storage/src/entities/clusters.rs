//! Clusters of projects and groups, on which these run: each belongs to exactly one of the two.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Clusters of projects and groups, on which these run: each belongs to exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "clusters")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to, if it is one.
    pub project_id: Option<i64>,
    /// The group it belongs to, if it is one.
    pub namespace_id: Option<i64>,
    /// What it is called.
    pub name: String,
    /// The domain below which things in it are reached.
    pub domain: Option<String>,
    /// The environments that it is for; unique within the project.
    pub environment_scope: String,
    /// Whether it is to be used.
    pub enabled: bool,
    /// Whether namespaces in it may be made.
    pub managed: bool,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The clusters of a project, the oldest first.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
