//! Deployments of commits to environments.

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// Status of a deployment, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum DeploymentStatus {
    /// Waiting.
    Created,
    /// Running.
    Running,
    /// Succeeded.
    Success,
    /// Failed.
    Failed,
    /// Canceled.
    Canceled,
}

impl DeploymentStatus {
    /// Returns whether the status is final.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Success | Self::Failed | Self::Canceled)
    }
}

/// Deployments of commits to environments.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "deployments")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The environment.
    pub environment_id: i64,
    /// The IID within the project.
    pub iid: i64,
    /// The branch, tag or other revision, as given.
    pub ref_name: String,
    /// The commit ID, 40 hex digits.
    pub sha: String,
    /// Whether the revision is a tag, as given.
    pub tag: bool,
    /// The status.
    pub status: DeploymentStatus,
    /// The user who created it; none if deleted.
    pub user_id: Option<i64>,
    /// The job that determines the status, while it exists.
    pub job_id: Option<i64>,
    /// When it finished; none before.
    pub finished_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the deployments of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// Locks a deployment of a project until the transaction ends; returns none if it does not exist. The project
/// must be locked first.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Option<Model>, DbErr> {
    let found = of_project(project_id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await
}
