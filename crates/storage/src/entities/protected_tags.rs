//! Protected tags of projects, by name or pattern.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Protected tags of projects, by name or pattern.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "protected_tags")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name, or a pattern with `*`.
    pub name: String,
    /// Minimum role for the creation of tags: 0 no role, 30 or 40.
    pub create_access_level: i32,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the protected tag of a project with exactly this name or pattern.
pub fn named(project_id: i64, name: &str) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::Name.eq(name))
}
