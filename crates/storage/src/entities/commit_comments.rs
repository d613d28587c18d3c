//! Comments on commits (specification 4.2).

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, SelectTwo};
use serde::{Deserialize, Serialize};

/// A side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum LineType {
    /// The line stands after the change.
    New,
    /// The line stood before it.
    Old,
}

/// Comments on commits (specification 4.2).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "commit_comments")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The id of the commit, 40 hex digits.
    pub sha: String,
    /// Who wrote it; none when the user is gone.
    pub author_id: Option<i64>,
    /// What it says.
    pub note: String,
    /// The file it is about.
    pub path: Option<String>,
    /// The line it is about.
    pub line: Option<i32>,
    /// Which side of the change the line is on.
    pub line_type: Option<LineType>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
    /// Who wrote it.
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

/// The comments on a commit with their authors, oldest first.
pub fn on_commit(project_id: i64, sha: &str) -> SelectTwo<Entity, super::users::Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::Sha.eq(sha))
        .find_also_related(super::users::Entity)
        .order_by_asc(Column::Id)
}
