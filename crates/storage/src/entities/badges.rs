//! Badges of projects and groups. Each belongs to exactly one project or group.

use chrono::{DateTime, Utc};
use sea_orm::Condition;
use sea_orm::entity::prelude::*;

use super::Scope;

/// Badges of projects and groups. Each belongs to exactly one project or group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "badges")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project, if it belongs to one.
    pub project_id: Option<i64>,
    /// The group, if it belongs to one.
    pub namespace_id: Option<i64>,
    /// The name.
    pub name: Option<String>,
    /// The link URL, with placeholders.
    pub link_url: String,
    /// The image URL, with placeholders.
    pub image_url: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the badges of a project with those of its ancestor groups, or the badges of a group.
/// `namespace_id` is the group, or the namespace of the project.
pub fn inherited_by(scope: Scope, namespace_id: i64) -> Select<Entity> {
    let (project, namespace) = (Column::ProjectId, Column::NamespaceId);
    Entity::find().filter(match scope {
        Scope::Project(_) => scope.owns_or_inherits(namespace_id, project, namespace),
        Scope::Group(_) => Condition::all().add(scope.owns(project, namespace)),
    })
}
