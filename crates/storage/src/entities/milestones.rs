//! Milestones of projects and groups: each belongs to exactly one of the two.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

use super::{Scope, fold};

/// Whether a milestone is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum State {
    /// It is.
    Active,
    /// It is not, or not any more.
    Closed,
}

/// Milestones of projects and groups: each belongs to exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "milestones")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to, if it is one.
    pub project_id: Option<i64>,
    /// The group it belongs to, if it is one.
    pub namespace_id: Option<i64>,
    /// The number within the project or group.
    pub iid: i64,
    /// What it is called; unique where it belongs to.
    pub title: String,
    /// That folded.
    pub title_key: String,
    /// What is to be reached.
    pub description: Option<String>,
    /// That folded.
    pub description_key: Option<String>,
    /// Whether it is worked on.
    pub state: State,
    /// The day it begins.
    pub start_date: Option<NaiveDate>,
    /// The day it is to be reached.
    pub due_date: Option<NaiveDate>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The group, if it belongs to one.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::NamespaceId",
        to = "super::namespaces::Column::Id"
    )]
    Group,
}

impl Related<super::namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Group.def()
    }
}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Keeps what is folded in step with the texts.
    async fn before_save<C>(mut self, _db: &C, _insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        if let Set(title) = &self.title {
            self.title_key = Set(fold(title));
        }
        if let Set(description) = &self.description {
            self.description_key = Set(description.as_deref().map(fold));
        }
        Ok(self)
    }
}

/// The milestones of a project or group itself.
pub fn within(scope: Scope) -> Select<Entity> {
    Entity::find().filter(scope.owns(Column::ProjectId, Column::NamespaceId))
}

/// The milestones that things of a project or group may have: its own and those of the groups above. `namespace_id` is
/// the group, or the namespace that the project lies in.
pub fn available(scope: Scope, namespace_id: i64) -> Select<Entity> {
    Entity::find().filter(scope.sees(namespace_id, Column::ProjectId, Column::NamespaceId))
}
