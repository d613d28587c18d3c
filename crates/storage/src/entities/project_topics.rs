//! Topics of projects (`tag_list` in the API).

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Query, SelectStatement};
use sea_orm::{DbBackend, QuerySelect, QueryTrait};

use super::related_rows::RelatedPart;

/// Topics of projects (`tag_list` in the API).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "project_topics")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The topic.
    pub name: String,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the topics of several projects in one statement, sorted, without entries for projects without
/// topics.
///
/// # Errors
/// Any database error.
pub async fn of_projects(
    db: &impl ConnectionTrait,
    project_ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<String>>, DbErr> {
    let rows = Entity::find()
        .filter(Column::ProjectId.is_in(project_ids))
        .all(db)
        .await?;
    let mut topics = HashMap::<i64, Vec<String>>::new();
    for row in rows {
        topics.entry(row.project_id).or_default().push(row.name);
    }
    topics.values_mut().for_each(|names| names.sort_unstable());
    Ok(topics)
}

/// Selects the IDs of projects with a topic, for use in conditions.
pub fn projects_with(topic: &str) -> SelectStatement {
    Entity::find()
        .select_only()
        .column(Column::ProjectId)
        .filter(Column::Name.eq(topic))
        .into_query()
}

/// Returns a part with the topics of projects as the first text, in any order; none without IDs.
#[must_use]
pub fn part(database: DbBackend, project_ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select().from(Entity).take();
    let part = RelatedPart::of_owners(database, rows, Column::ProjectId.into_expr(), project_ids)?;
    Some(part.with_texts([Column::Name.into_expr()]))
}
