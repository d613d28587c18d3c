//! Boards of issues of projects and groups: each belongs to exactly one of the two.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

use super::Scope;

/// Boards of issues of projects and groups: each belongs to exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "boards")]
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
    /// Open issues that are on no list are left out.
    pub hide_backlog_list: bool,
    /// Closed issues are left out.
    pub hide_closed_list: bool,
    /// The milestone that its issues belong to.
    pub milestone_id: Option<i64>,
    /// The user that its issues are assigned to.
    pub assignee_id: Option<i64>,
    /// The weight that its issues have.
    pub weight: Option<i32>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The boards of a project or group.
pub fn within(scope: Scope) -> Select<Entity> {
    Entity::find().filter(scope.owns(Column::ProjectId, Column::NamespaceId))
}
