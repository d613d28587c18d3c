//! Labels. Each belongs to exactly one project or group.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::DbBackend;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Query;

use super::related_rows::{LinkTable, PartKey, RelatedPart, RelatedRowSets, RelatedRows};
use super::row_conditions::{by_code_points, is_among};
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
    /// The description. All rows with the label share it.
    pub description: Option<Arc<str>>,
}

impl From<Model> for LabelSummary {
    fn from(label: Model) -> Self {
        Self {
            id: label.id,
            title: label.title,
            color: label.color,
            description: label.description.map(Arc::from),
        }
    }
}

/// The parts of a statement with the labels that a table links to the rows of a page.
#[derive(Debug, Clone, Copy)]
pub struct LabelParts {
    labels: PartKey,
    descriptions: PartKey,
}

impl LabelParts {
    /// Adds the parts to a statement. The description of a label, which can be long, is read once for all rows.
    pub fn add(related: &mut RelatedRows, database: DbBackend, link: LinkTable, ids: &[i64]) -> Self {
        let labels = RelatedPart::linked(database, link, ids).map(|part| {
            let title = by_code_points(database, Column::Title.into_expr());
            part.with_id(Column::Id.into_expr())
                .with_texts([title, Column::Color.into_expr()])
        });
        Self {
            labels: related.add(labels),
            descriptions: related.add(descriptions_part(database, link, ids)),
        }
    }

    /// Removes and returns the labels by the ID of the row of the page, sorted by title.
    #[must_use]
    pub fn take(self, rows: &mut RelatedRowSets) -> HashMap<i64, Vec<LabelSummary>> {
        let descriptions = rows.take(self.descriptions).into_iter().filter_map(|row| {
            let [description, ..] = row.texts;
            Some((row.owner_id, Arc::<str>::from(description?)))
        });
        let descriptions: HashMap<i64, Arc<str>> = descriptions.collect();
        let mut labels: HashMap<i64, Vec<LabelSummary>> = HashMap::new();
        for row in rows.take(self.labels) {
            let [title, color, ..] = row.texts;
            labels.entry(row.owner_id).or_default().push(LabelSummary {
                id: row.id,
                title: title.unwrap_or_default(),
                color: color.unwrap_or_default(),
                description: descriptions.get(&row.id).cloned(),
            });
        }
        labels
    }
}

/// Returns a part with the descriptions of the labels that a table links to the rows of a page, each label as its own
/// owner; none without rows of a page.
fn descriptions_part(database: DbBackend, link: LinkTable, ids: &[i64]) -> Option<RelatedPart> {
    if ids.is_empty() {
        return None;
    }
    let owner = Expr::col((link.name, link.owner_column));
    let linked = Query::select()
        .column(link.column)
        .from(link.name)
        .and_where(is_among(database, owner, ids.iter().copied()))
        .take();
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::Id.in_subquery(linked))
        .and_where(Column::Description.is_not_null())
        .take();
    let part = RelatedPart::new(rows, Column::Id.into_expr()).sorted_by(Column::Id.into_expr());
    Some(part.with_large_text("labels", "description"))
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
