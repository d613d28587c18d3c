//! Milestones. Each belongs to exactly one project or group.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Keyword, Query};
use sea_orm::{DbBackend, Iterable};

use super::related_rows::RelatedPart;
use super::{Scope, fold};

/// State of a milestone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum MilestoneState {
    /// Active.
    Active,
    /// Closed.
    Closed,
}

/// Milestones. Each belongs to exactly one project or group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "milestones")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project, if it belongs to one.
    pub project_id: Option<i64>,
    /// The group, if it belongs to one.
    pub namespace_id: Option<i64>,
    /// The IID within the project or group.
    pub iid: i64,
    /// The title; unique within the project or group.
    pub title: String,
    /// The folded value.
    pub title_key: String,
    /// The description.
    pub description: Option<String>,
    /// The folded value.
    pub description_key: Option<String>,
    /// The state.
    pub state: MilestoneState,
    /// The start date.
    pub start_date: Option<NaiveDate>,
    /// The due date.
    pub due_date: Option<NaiveDate>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
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
    /// Updates the folded texts when the texts change.
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

/// Returns the columns in their order, with nulls in place of the description. Many rows of a page can have one
/// milestone, and each would contain a copy.
pub fn columns_without_description() -> impl Iterator<Item = Expr> {
    Column::iter().map(|column| match column {
        Column::Description | Column::DescriptionKey => Expr::Keyword(Keyword::Null),
        column => column.into_expr(),
    })
}

/// Returns a part with the descriptions of milestones, each milestone as its own owner; none without IDs.
#[must_use]
pub fn descriptions_part(database: DbBackend, ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::Description.is_not_null())
        .take();
    let part = RelatedPart::of_owners(database, rows, Column::Id.into_expr(), ids)?;
    let part = part.sorted_by(Column::Id.into_expr());
    Some(part.with_large_text("milestones", "description"))
}

/// Selects the milestones of a project or group itself.
pub fn within(scope: Scope) -> Select<Entity> {
    Entity::find().filter(scope.owns(Column::ProjectId, Column::NamespaceId))
}

/// Selects the milestones available in a project or group: its own and those of its ancestor groups.
/// `namespace_id` is the group, or the namespace of the project.
pub fn available(scope: Scope, namespace_id: i64) -> Select<Entity> {
    Entity::find().filter(scope.owns_or_inherits(namespace_id, Column::ProjectId, Column::NamespaceId))
}
