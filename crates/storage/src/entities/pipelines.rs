//! Pipelines of projects. Their jobs run for a commit or are reported by external systems.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, JoinType, Query, SelectStatement, SubQueryStatement};
use sea_orm::{
    Condition, FromQueryResult, IdenStatic, Iterable, QueryOrder, QueryResult, QuerySelect, SelectExt,
};

use super::projects;

/// Status of a pipeline or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum PipelineStatus {
    /// Waiting for earlier jobs.
    Created,
    /// Waiting for an exclusive resource.
    WaitingForResource,
    /// Preparing its prerequisites.
    Preparing,
    /// Waiting for a runner.
    Pending,
    /// Running.
    Running,
    /// Succeeded.
    Success,
    /// Failed.
    Failed,
    /// Canceled.
    Canceled,
    /// Skipped.
    Skipped,
    /// Waiting for manual action.
    Manual,
    /// Waiting for a scheduled time.
    Scheduled,
}

impl PipelineStatus {
    /// The final statuses.
    pub const FINISHED: [Self; 4] = [Self::Success, Self::Failed, Self::Canceled, Self::Skipped];

    /// Returns whether the status is final.
    #[must_use]
    pub fn is_finished(self) -> bool {
        Self::FINISHED.contains(&self)
    }

    /// Returns the name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
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

/// Source of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum PipelineSource {
    /// The API.
    Api,
    /// A trigger token.
    Trigger,
    /// A schedule.
    Schedule,
    /// A status reported by an external system.
    External,
}

impl PipelineSource {
    /// Returns the name in webhooks.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Trigger => "trigger",
            Self::Schedule => "schedule",
            Self::External => "external",
        }
    }
}

/// Pipelines of projects. Their jobs run for a commit or are reported by external systems.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "pipelines")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The commit ID, 40 hex digits.
    pub sha: String,
    /// The branch or tag.
    pub ref_name: String,
    /// Whether it runs for a tag.
    pub tag: bool,
    /// The source.
    pub source: PipelineSource,
    /// The status, derived from its jobs.
    pub status: PipelineStatus,
    /// The user who created it; none if deleted.
    pub user_id: Option<i64>,
    /// The trigger that created it, while it exists.
    pub trigger_id: Option<i64>,
    /// The schedule that created it, while it exists.
    pub schedule_id: Option<i64>,
    /// The scheduled time for which it was created; none if a user played the schedule.
    pub scheduled_for: Option<DateTime<Utc>>,
    /// The mean coverage of its jobs, in percent.
    pub coverage: Option<f64>,
    /// When its first job started.
    pub started_at: Option<DateTime<Utc>>,
    /// When it finished; none before.
    pub finished_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Model {
    /// Returns the duration in seconds; none before it finished.
    #[must_use]
    pub fn duration(&self) -> Option<i64> {
        Some((self.finished_at? - self.started_at?).num_seconds())
    }
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

impl Related<projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the pipelines of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// A branch or a tag. The two can have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchOrTag<'a> {
    /// The short name.
    pub name: &'a str,
    /// Whether it is a tag.
    pub tag: bool,
}

/// Returns whether a schedule has created a pipeline for a scheduled time.
///
/// # Errors
/// Any database error.
pub async fn exists_for_run(
    db: &impl ConnectionTrait,
    schedule_id: i64,
    scheduled_for: DateTime<Utc>,
) -> Result<bool, DbErr> {
    Entity::find()
        .filter(Column::ScheduleId.eq(schedule_id))
        .filter(Column::ScheduledFor.eq(scheduled_for))
        .exists(db)
        .await
}

/// Returns the newest pipeline of a commit in a project, of one branch or tag if given.
///
/// # Errors
/// Any database error.
pub async fn newest(
    db: &impl ConnectionTrait,
    project_id: i64,
    sha: &str,
    reference: Option<BranchOrTag<'_>>,
) -> Result<Option<Model>, DbErr> {
    let mut query = of_project(project_id).filter(Column::Sha.eq(sha));
    if let Some(reference) = reference {
        query = query
            .filter(Column::RefName.eq(reference.name))
            .filter(Column::Tag.eq(reference.tag));
    }
    query.order_by_desc(Column::Id).one(db).await
}

/// Returns the newest pipeline of each commit in a project.
///
/// # Errors
/// Any database error.
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

/// Locks a pipeline of a project until the transaction ends; returns none if it does not exist. The project
/// must be locked first.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Option<Model>, DbErr> {
    let found = of_project(project_id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await
}

/// Prefix of the columns of a joined pipeline, after those that `SeaORM` uses for the first two tables.
const JOINED_PREFIX: &str = "C_";
/// Alias of the table in which the newest pipeline is searched.
const NEWEST: &str = "newest";

/// Joins the newest pipeline that meets a condition to the rows of a statement. `condition` builds the condition from
/// the columns of pipelines.
pub fn join_newest(rows: &mut SelectStatement, condition: impl FnOnce(fn(Column) -> Expr) -> Condition) {
    let column: fn(Column) -> Expr = |column| Expr::col((NEWEST, column));
    // For a plain maximum, PostgreSQL reads all pipelines from the newest on.
    let newest_id = Query::select()
        .expr(column(Column::Id).add(0).max())
        .from_as(Entity, NEWEST)
        .cond_where(condition(column))
        .take();
    let is_newest = Column::Id
        .into_expr()
        .eq(Expr::from(SubQueryStatement::from(newest_id)));
    rows.join(JoinType::LeftJoin, Entity, is_newest);
    for column in Column::iter() {
        rows.expr_as(column.into_expr(), format!("{JOINED_PREFIX}{}", column.as_str()));
    }
}

/// Reads the pipeline of a row of [`join_newest`].
///
/// # Errors
/// An error if a column has another type.
pub fn read_joined(row: &QueryResult) -> Result<Option<Model>, DbErr> {
    let id: Option<i64> = row.try_get(JOINED_PREFIX, "id")?;
    id.map(|_| Model::from_query_result(row, JOINED_PREFIX))
        .transpose()
}
