//! Pipelines of projects: what runs, or is reported by systems outside, for a commit.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use super::projects;

/// What has become of a pipeline or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Status {
    /// It waits for others before it.
    Created,
    /// It waits for something that only one may use.
    WaitingForResource,
    /// What it needs is made ready.
    Preparing,
    /// It waits for somebody to run it.
    Pending,
    /// It runs.
    Running,
    /// It went well.
    Success,
    /// It did not.
    Failed,
    /// It was stopped.
    Canceled,
    /// It was left out.
    Skipped,
    /// It waits for a person.
    Manual,
    /// It waits for a time.
    Scheduled,
}

impl Status {
    /// Those from which nothing comes by itself.
    pub const FINISHED: [Self; 4] = [Self::Success, Self::Failed, Self::Canceled, Self::Skipped];

    /// Whether nothing more comes by itself.
    #[must_use]
    pub fn is_finished(self) -> bool {
        Self::FINISHED.contains(&self)
    }

    /// The word of the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::WaitingForResource => "waiting_for_resource",
            Self::Preparing => "preparing",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Skipped => "skipped",
            Self::Manual => "manual",
            Self::Scheduled => "scheduled",
        }
    }
}

/// What made a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Source {
    /// A call of the interface.
    Api,
    /// A token of a trigger.
    Trigger,
    /// A schedule.
    Schedule,
    /// A status that a system outside reported.
    External,
}

impl Source {
    /// The word that hooks are told.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Trigger => "trigger",
            Self::Schedule => "schedule",
            Self::External => "external",
        }
    }
}

/// Pipelines of projects: what runs, or is reported by systems outside, for a commit.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "pipelines")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to.
    pub project_id: i64,
    /// The commit, in 40 hex digits.
    pub sha: String,
    /// The branch or tag.
    pub ref_name: String,
    /// It is for a tag.
    pub tag: bool,
    /// What made it.
    pub source: Source,
    /// What has become of it; follows from its jobs.
    pub status: Status,
    /// Who made it; none when the user is gone.
    pub user_id: Option<i64>,
    /// The trigger that made it, as long as that is there.
    pub trigger_id: Option<i64>,
    /// The schedule that made it, as long as that is there.
    pub schedule_id: Option<i64>,
    /// The time for which that schedule made it; none when somebody played it.
    pub scheduled_for: Option<DateTime<Utc>>,
    /// The mean of the coverages that its jobs tell, in percent.
    pub coverage: Option<f64>,
    /// When its first job began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it finished; none while it goes on.
    pub finished_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

impl Model {
    /// From its beginning to its end in seconds; none before.
    #[must_use]
    pub fn duration(&self) -> Option<i64> {
        Some((self.finished_at? - self.started_at?).num_seconds())
    }
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project it belongs to.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The pipelines of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// The newest pipeline of a commit in a project, of one reference where that is said.
///
/// # Errors
/// Whatever the database reports.
pub async fn newest(
    db: &impl ConnectionTrait,
    project_id: i64,
    sha: &str,
    ref_name: Option<&str>,
) -> Result<Option<Model>, DbErr> {
    let mut wanted = of_project(project_id).filter(Column::Sha.eq(sha));
    if let Some(name) = ref_name {
        wanted = wanted.filter(Column::RefName.eq(name));
    }
    wanted.order_by_desc(Column::Id).one(db).await
}

/// The newest pipeline of each of these commits in a project.
///
/// # Errors
/// Whatever the database reports.
pub async fn newest_of(
    db: &impl ConnectionTrait,
    project_id: i64,
    shas: Vec<String>,
) -> Result<Vec<Model>, DbErr> {
    if shas.is_empty() {
        return Ok(Vec::new());
    }
    let newest = of_project(project_id)
        .select_only()
        .column_as(Column::Id.max(), "newest")
        .filter(Column::Sha.is_in(shas))
        .group_by(Column::Sha);
    Entity::find()
        .filter(Column::Id.in_subquery(sea_orm::QueryTrait::into_query(newest)))
        .all(db)
        .await
}

/// Locks a pipeline of a project until the transaction ends; none when it is not there. The project is locked before.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Option<Model>, DbErr> {
    let found = of_project(project_id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await
}
