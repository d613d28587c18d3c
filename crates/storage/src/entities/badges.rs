//! Badges of projects and groups: each belongs to exactly one of the two.

use chrono::{DateTime, Utc};
use sea_orm::Condition;
use sea_orm::entity::prelude::*;

use super::Scope;

/// Badges of projects and groups: each belongs to exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "badges")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to, if it is one.
    pub project_id: Option<i64>,
    /// The group it belongs to, if it is one.
    pub namespace_id: Option<i64>,
    /// What it is called.
    pub name: Option<String>,
    /// Where it leads to, with placeholders.
    pub link_url: String,
    /// Where the picture is, with placeholders.
    pub image_url: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The badges that a place shows: a project its own and those of the groups above, a group its own. `namespace_id` is the
/// group, or the namespace that the project lies in.
pub fn shown(scope: Scope, namespace_id: i64) -> Select<Entity> {
    let (project, namespace) = (Column::ProjectId, Column::NamespaceId);
    Entity::find().filter(match scope {
        Scope::Project(_) => scope.sees(namespace_id, project, namespace),
        Scope::Group(_) => Condition::all().add(scope.owns(project, namespace)),
    })
}
