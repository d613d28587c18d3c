//! Issue boards. Each belongs to exactly one project or group.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

use super::Scope;

/// Issue boards. Each belongs to exactly one project or group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "boards")]
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
    /// Whether the backlog list (open issues on no other list) is hidden.
    pub hide_backlog_list: bool,
    /// Whether the list of closed issues is hidden.
    pub hide_closed_list: bool,
    /// The milestone that filters its issues.
    pub milestone_id: Option<i64>,
    /// The assignee that filters its issues.
    pub assignee_id: Option<i64>,
    /// The weight that filters its issues.
    pub weight: Option<i32>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the boards of a project or group.
pub fn within(scope: Scope) -> Select<Entity> {
    Entity::find().filter(scope.owns(Column::ProjectId, Column::NamespaceId))
}
