//! Comments on commits.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, SelectTwo};
use serde::{Deserialize, Serialize};

/// Side of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum LineType {
    /// The line exists after the change.
    New,
    /// The line existed before the change.
    Old,
}

/// Comments on commits.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "commit_comments")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The commit ID, 40 hex digits.
    pub sha: String,
    /// The author; none if the user was deleted.
    pub author_id: Option<i64>,
    /// The text.
    pub note: String,
    /// The path of the file.
    pub path: Option<String>,
    /// The line number.
    pub line: Option<i32>,
    /// The side of the diff.
    pub line_type: Option<LineType>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
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
    /// The author.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::AuthorId",
        to = "super::users::Column::Id"
    )]
    Author,
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Author.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the comments on a commit with their authors, oldest first.
pub fn on_commit(project_id: i64, sha: &str) -> SelectTwo<Entity, super::users::Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::Sha.eq(sha))
        .find_also_related(super::users::Entity)
        .order_by_asc(Column::Id)
}
