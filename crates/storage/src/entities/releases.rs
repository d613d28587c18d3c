//! Releases of projects.

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// Releases of projects. A release remains if its tag is deleted.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "releases")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name of the tag; unique within the project.
    pub tag: String,
    /// The name.
    pub name: String,
    /// The release notes.
    pub description: Option<String>,
    /// The author; none if deleted.
    pub author_id: Option<i64>,
    /// When the release is or was available; it can be in the future.
    pub released_at: DateTime<Utc>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
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

/// Selects the releases of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// Selects the release of a tag.
pub fn by_tag(project_id: i64, tag: &str) -> Select<Entity> {
    of_project(project_id).filter(Column::Tag.eq(tag))
}

/// Returns the release notes of tags, by tag.
///
/// # Errors
/// Any database error.
pub async fn notes_of_tags(
    db: &impl ConnectionTrait,
    project_id: i64,
    tags: impl IntoIterator<Item = &str>,
) -> Result<Vec<(String, Option<String>)>, DbErr> {
    of_project(project_id)
        .filter(Column::Tag.is_in(tags))
        .select_only()
        .columns([Column::Tag, Column::Description])
        .into_tuple()
        .all(db)
        .await
}
