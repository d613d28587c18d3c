//! Labels. Each belongs to exactly one project or group.

use chrono::{DateTime, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

use super::related_rows::{RelatedPart, RelatedRow};
use super::{Scope, fold};

/// Labels. Each belongs to exactly one project or group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "labels")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project, if it belongs to one.
    pub project_id: Option<i64>,
    /// The group, if it belongs to one.
    pub namespace_id: Option<i64>,
    /// The title; unique within the project or group.
    pub title: String,
    /// The folded value.
    pub title_key: String,
    /// The color, as `#RRGGBB`.
    pub color: String,
    /// The description.
    pub description: Option<String>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

/// The part of a label that other resources show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSummary {
    /// The ID.
    pub id: i64,
    /// The title.
    pub title: String,
    /// The color, as `#RRGGBB`.
    pub color: String,
    /// The description.
    pub description: Option<String>,
}

impl LabelSummary {
    /// Adds the columns of a label to a part that selects from `labels`. The rows are sorted by title.
    #[must_use]
    pub fn columns(part: RelatedPart) -> RelatedPart {
        let texts = [Column::Title, Column::Color, Column::Description];
        part.with_id(Column::Id.into_expr())
            .with_texts(texts.map(ColumnTrait::into_expr))
    }

    /// Reads a row with the columns of a label.
    #[must_use]
    pub fn read(row: RelatedRow) -> Self {
        let [title, color, description, _] = row.texts;
        Self {
            id: row.id,
            title: title.unwrap_or_default(),
            color: color.unwrap_or_default(),
            description,
        }
    }
}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Updates the folded title when the title changes.
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

/// Selects the labels of a project or group itself.
pub fn within(scope: Scope) -> Select<Entity> {
    Entity::find().filter(scope.owns(Column::ProjectId, Column::NamespaceId))
}

/// Selects the labels available in a project or group: its own and those of its ancestor groups.
/// `namespace_id` is the group, or the namespace of the project.
pub fn available(scope: Scope, namespace_id: i64) -> Select<Entity> {
    Entity::find().filter(scope.owns_or_inherits(namespace_id, Column::ProjectId, Column::NamespaceId))
}
