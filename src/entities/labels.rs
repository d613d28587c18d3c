//! Labels of projects and groups: each belongs to exactly one of the two.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder};

use super::{Scope, fold, issue_labels, namespace_ancestors};

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
    Entity::find().filter(match scope {
        Scope::Project(id) => Column::ProjectId.eq(id),
        Scope::Group(id) => Column::NamespaceId.eq(id),
    })
}

/// The labels that things of a project or group may carry: its own and those of the groups above. `namespace_id` is the
/// group, or the namespace that the project lies in.
pub fn available(scope: Scope, namespace_id: i64) -> Select<Entity> {
    let above = namespace_ancestors::at_or_above(namespace_id);
    let own = scope.project_id().map(|id| Column::ProjectId.eq(id));
    let carried = Condition::any()
        .add_option(own)
        .add(Column::NamespaceId.in_subquery(above));
    Entity::find().filter(carried)
}

/// The labels of several issues in one statement, by title; issues without one are absent.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_issues(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<Model>>, DbErr> {
    let rows = issue_labels::Entity::find()
        .find_also_related(Entity)
        .filter(issue_labels::Column::IssueId.is_in(ids))
        .order_by_asc(Column::Title)
        .order_by_asc(Column::Id)
        .all(db)
        .await?;
    let mut labels: HashMap<i64, Vec<Model>> = HashMap::new();
    for (row, label) in rows {
        labels.entry(row.issue_id).or_default().extend(label);
    }
    Ok(labels)
}
