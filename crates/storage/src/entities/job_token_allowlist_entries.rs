//! Projects and groups whose jobs can use a project with their job tokens.

use chrono::{DateTime, Utc};
use sea_orm::Condition;
use sea_orm::entity::prelude::*;

use super::namespace_ancestors;

/// Allowlist entries of projects. Each allows one project, or the projects of one group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "job_token_allowlist_entries")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project that the jobs can use.
    pub project_id: i64,
    /// The project of the jobs, if the entry allows one project.
    pub allowed_project_id: Option<i64>,
    /// The group of the projects of the jobs, if the entry allows a group.
    pub allowed_namespace_id: Option<i64>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns whether the allowlist of a project contains the project of a job, or a group above it.
///
/// # Errors
/// Any database error.
pub async fn allows(db: &impl ConnectionTrait, project_id: i64, job_project_id: i64) -> Result<bool, DbErr> {
    let groups = namespace_ancestors::around_project(job_project_id);
    let entry = Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(
            Condition::any()
                .add(Column::AllowedProjectId.eq(job_project_id))
                .add(Column::AllowedNamespaceId.in_subquery(groups)),
        )
        .one(db)
        .await?;
    Ok(entry.is_some())
}
