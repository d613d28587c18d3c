//! Labels of projects and groups: each belongs to exactly one of the two.

use chrono::{DateTime, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

use super::{Scope, fold};

/// Labels of projects and groups: each belongs to exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "labels")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to, if it is one.
    pub project_id: Option<i64>,
    /// The group it belongs to, if it is one.
    pub namespace_id: Option<i64>,
    /// What it says; unique where it belongs to.
    pub title: String,
    /// That folded.
    pub title_key: String,
    /// The colour, as `#RRGGBB`.
    pub color: String,
    /// What it is for.
    pub description: Option<String>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Keeps the folded title in step with the title.
    async fn before_save<C>(mut self, _db: &C, _insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        if let Set(title) = &self.title {
            self.title_key = Set(fold(title));
        }
        Ok(self)
    }
}

/// The labels of a project or group itself.
pub fn within(scope: Scope) -> Select<Entity> {
    Entity::find().filter(scope.owns(Column::ProjectId, Column::NamespaceId))
}

/// The labels that things of a project or group may carry: its own and those of the groups above. `namespace_id` is the
/// group, or the namespace that the project lies in.
pub fn available(scope: Scope, namespace_id: i64) -> Select<Entity> {
    Entity::find().filter(scope.sees(namespace_id, Column::ProjectId, Column::NamespaceId))
}
