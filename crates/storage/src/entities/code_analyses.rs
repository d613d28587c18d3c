//! Results of code analyses, by project and commit. The languages are in a separate table
//! (`project_languages`), because lists are filtered by them.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Results of code analyses, by project and commit.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "code_analyses")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project; one row each.
    pub project_id: i64,
    /// The commit ID, 40 hex digits.
    pub commit_id: String,
    /// The revision of the analysis rules; older results are renewed.
    pub revision: i32,
    /// The SPDX ID of the license, if recognized.
    pub license_key: Option<String>,
    /// The path of the license file.
    pub license_path: Option<String>,
    /// When the analysis ran.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the latest result for a project.
///
/// # Errors
/// Any database error.
pub async fn of_project(db: &impl ConnectionTrait, project_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .one(db)
        .await
}
