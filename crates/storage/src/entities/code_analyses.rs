//! What was found in the code of projects, by the commit that was looked at. The languages have a table of their
//! own (`project_languages`), since lists are filtered by them.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// What was found in the code of projects, by the commit that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "code_analyses")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project; one row each.
    pub project_id: i64,
    /// The commit, 40 hex digits.
    pub commit_id: String,
    /// Which rules were followed; older findings are renewed.
    pub revision: i32,
    /// The SPDX id of the licence, when one was recognised.
    pub license_key: Option<String>,
    /// The file that holds it.
    pub license_path: Option<String>,
    /// When it was looked at.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// What was found in a project, whenever that was.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_project(db: &impl ConnectionTrait, project_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .one(db)
        .await
}
