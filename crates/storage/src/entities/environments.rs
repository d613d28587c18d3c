//! Environments of projects.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Query;
use sea_orm::{DbBackend, QueryOrder};

use super::related_rows::{RelatedPart, RelatedRow};

/// State of an environment, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum EnvironmentState {
    /// Available.
    Available,
    /// Stopped.
    Stopped,
}

/// Environments of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "environments")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name; unique within the project.
    pub name: String,
    /// The name in a form for URLs; unique within the project.
    pub slug: String,
    /// The external URL.
    pub external_url: Option<String>,
    /// The state.
    pub state: EnvironmentState,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// The part of an environment that deployments show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentSummary {
    /// The ID.
    pub id: i64,
    /// The name.
    pub name: String,
    /// The name in a form for URLs.
    pub slug: String,
    /// The external URL.
    pub external_url: Option<String>,
}

impl EnvironmentSummary {
    /// Returns a part with environments, each as its own owner; none without IDs.
    #[must_use]
    pub fn part(database: DbBackend, ids: &[i64]) -> Option<RelatedPart> {
        let rows = Query::select().from(Entity).take();
        let part = RelatedPart::of_owners(database, rows, Column::Id.into_expr(), ids)?;
        let texts = [Column::Name, Column::Slug, Column::ExternalUrl];
        Some(part.with_texts(texts.map(ColumnTrait::into_expr)))
    }

    /// Reads a row of [`Self::part`].
    #[must_use]
    pub fn read(row: RelatedRow) -> Self {
        let [name, slug, external_url, _] = row.texts;
        Self {
            id: row.owner_id,
            name: name.unwrap_or_default(),
            slug: slug.unwrap_or_default(),
            external_url,
        }
    }
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the environments of a project, oldest first.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
