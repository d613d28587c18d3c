//! Deployments: which commit of a project was deployed to which of its environments (specification 2.12).

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// What has become of a deployment; the words are those of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Status {
    /// It waits.
    Created,
    /// It runs.
    Running,
    /// It went well.
    Success,
    /// It did not.
    Failed,
    /// It was stopped.
    Canceled,
}

impl Status {
    /// Whether nothing more comes by itself.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Success | Self::Failed | Self::Canceled)
    }
}

/// Deployments: which commit of a project was deployed to which of its environments.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deployments")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The environment.
    pub environment_id: i64,
    /// The number within the project.
    pub iid: i64,
    /// The branch or tag, or whatever else was said to lead to the commit.
    pub ref_name: String,
    /// The commit, in 40 hex digits.
    pub sha: String,
    /// Whether that is a tag, as far as was said.
    pub tag: bool,
    /// What has become of it.
    pub status: Status,
    /// Who made it; none when the user is gone.
    pub user_id: Option<i64>,
    /// The job whose status it follows, as long as that is there.
    pub job_id: Option<i64>,
    /// When it finished; none while it goes on.
    pub finished_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The deployments of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// Locks a deployment of a project until the transaction ends; none when it is not there. The project is locked before.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Option<Model>, DbErr> {
    let found = of_project(project_id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await
}
