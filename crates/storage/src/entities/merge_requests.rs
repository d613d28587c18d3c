//! Merge requests: what is to be merged from one branch into another (specification 2.0).

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, LockType, Query};
use sea_orm::{Condition, QuerySelect};

use super::access::{self, Viewer};
use super::by_row::finds;
use super::projects;

/// What has become of a merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum State {
    /// It waits.
    Opened,
    /// It was given up.
    Closed,
    /// It is being merged.
    Locked,
    /// It was merged.
    Merged,
}

/// Whether a merge request can be merged, as far as that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum MergeStatus {
    /// Nobody looked since its branches moved.
    Unchecked,
    /// It can.
    CanBeMerged,
    /// It cannot.
    CannotBeMerged,
}

/// Merge requests: what is to be merged from one branch into another (specification 2.0).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "merge_requests")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project that it is merged into, and belongs to.
    pub target_project_id: i64,
    /// The project that it comes from; none when that is gone.
    pub source_project_id: Option<i64>,
    /// The number within the project.
    pub iid: i64,
    /// Who made it; none when the user is gone.
    pub author_id: Option<i64>,
    /// The branch that it comes from.
    pub source_branch: String,
    /// The branch that it is merged into.
    pub target_branch: String,
    /// What it is about.
    pub title: String,
    /// What there is to say.
    pub description: Option<String>,
    /// What has become of it.
    pub state: State,
    /// Only members may comment.
    pub discussion_locked: bool,
    /// The milestone.
    pub milestone_id: Option<i64>,
    /// The day that milestone is to be reached, kept in step with it for the order of lists.
    pub milestone_due_on: Option<NaiveDate>,
    /// The lowest rank that the project gives a label of it, kept in step for the order of lists.
    pub label_priority: Option<i32>,
    /// The commit that the source branch stands at.
    pub head_sha: String,
    /// The commit where both branches part.
    pub base_sha: String,
    /// The commit that the target branch stood at when that was found.
    pub start_sha: String,
    /// Whether it can be merged, as far as that was looked at.
    pub merge_status: MergeStatus,
    /// The commits that were looked at for that.
    pub merge_status_of: Option<String>,
    /// Why it could not be merged.
    pub merge_error: Option<String>,
    /// Its commits become one.
    pub squash: bool,
    /// Whether its author wants the source branch removed.
    pub force_remove_source_branch: Option<bool>,
    /// Whether whoever merges it wants the source branch removed.
    pub should_remove_source_branch: Option<bool>,
    /// Whether members of the target may push to the source branch.
    pub allow_collaboration: bool,
    /// It is merged as soon as its pipeline succeeds.
    pub merge_when_pipeline_succeeds: bool,
    /// Who wanted that.
    pub merge_user_id: Option<i64>,
    /// How it is to be merged then, as JSON.
    pub merge_params: Option<String>,
    /// The commit that merged it.
    pub merge_commit_sha: Option<String>,
    /// The commit that its commits became.
    pub squash_commit_sha: Option<String>,
    /// Who merged it; none when the user is gone.
    pub merged_by_id: Option<i64>,
    /// When it was merged.
    pub merged_at: Option<DateTime<Utc>>,
    /// Who closed it; none when the user is gone.
    pub closed_by_id: Option<i64>,
    /// When it was closed.
    pub closed_at: Option<DateTime<Utc>>,
    /// How long it is thought to take, in seconds.
    pub time_estimate: i64,
    /// How long it took so far, in seconds.
    pub total_time_spent: i64,
    /// How many users awarded `thumbsup`.
    pub upvotes: i32,
    /// How many users awarded `thumbsdown`.
    pub downvotes: i32,
    /// How many notes users wrote.
    pub user_notes_count: i32,
    /// How many tasks the description lists.
    pub tasks: i32,
    /// How many of those are ticked.
    pub completed_tasks: i32,
    /// When title or description were changed last.
    pub last_edited_at: Option<DateTime<Utc>>,
    /// Who changed them.
    pub last_edited_by_id: Option<i64>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project that it belongs to.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::TargetProjectId",
        to = "super::projects::Column::Id"
    )]
    TargetProject,
    /// Who made it.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::AuthorId",
        to = "super::users::Column::Id"
    )]
    Author,
    /// The milestone.
    #[sea_orm(
        belongs_to = "super::milestones::Entity",
        from = "Column::MilestoneId",
        to = "super::milestones::Column::Id"
    )]
    Milestone,
}

impl Related<projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::TargetProject.def()
    }
}

impl Related<super::milestones::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Milestone.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The merge request of a project with a number.
pub fn numbered(project_id: i64, iid: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::TargetProjectId.eq(project_id))
        .filter(Column::Iid.eq(iid))
}

/// Locks a merge request until the transaction ends; none when it is not there. Rows that name it may be
/// made meanwhile, or two that name each other would wait for each other.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock(LockType::NoKeyUpdate).one(db).await
}

/// Merge requests that somebody may see, as a condition on `merge_requests` that is looked at row by row: those of visible
/// projects whose merge requests and whose code are there for them.
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    Condition::all().add(in_projects(access::projects_with_merge_requests(viewer, today)))
}

/// Merge requests whose target project meets a condition on `projects`, looked at row by row.
pub fn in_projects(condition: Condition) -> Expr {
    let mut project = Query::select()
        .expr(Expr::val(1))
        .from(projects::Entity)
        .and_where(
            Expr::col((projects::Entity, projects::Column::Id))
                .eq(Expr::col((Entity, Column::TargetProjectId))),
        )
        .cond_where(condition)
        .take();
    finds(&mut project)
}

/// The open one from a branch into a branch, of which there is one at most.
pub fn open_between(source: (i64, &str), target: (i64, &str)) -> Select<Entity> {
    Entity::find()
        .filter(Column::SourceProjectId.eq(source.0))
        .filter(Column::SourceBranch.eq(source.1))
        .filter(Column::TargetProjectId.eq(target.0))
        .filter(Column::TargetBranch.eq(target.1))
        .filter(Column::State.eq(State::Opened))
}
