//! Merge requests.

use std::collections::HashSet;

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, LockType, Query};
use sea_orm::{Condition, QuerySelect};

use super::access::{self, Viewer};
use super::projects;
use super::row_conditions::has_rows;

/// State of a merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum MergeRequestState {
    /// Open.
    Opened,
    /// Closed.
    Closed,
    /// Being merged.
    Locked,
    /// Merged.
    Merged,
}

/// Result of the last mergeability check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum MergeStatus {
    /// Not checked since its branches moved.
    Unchecked,
    /// Can be merged.
    CanBeMerged,
    /// Cannot be merged.
    CannotBeMerged,
}

/// Merge requests.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "merge_requests")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The target project, which contains the merge request.
    pub target_project_id: i64,
    /// The source project; none if it was deleted.
    pub source_project_id: Option<i64>,
    /// The IID within the project.
    pub iid: i64,
    /// The creator; none if the user was deleted.
    pub author_id: Option<i64>,
    /// The source branch.
    pub source_branch: String,
    /// The target branch.
    pub target_branch: String,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// The state.
    pub state: MergeRequestState,
    /// Whether only members may comment.
    pub discussion_locked: bool,
    /// The milestone.
    pub milestone_id: Option<i64>,
    /// The due date of the milestone, copied here for sorting.
    pub milestone_due_on: Option<NaiveDate>,
    /// The lowest priority of its labels in the project, stored here for sorting.
    pub label_priority: Option<i32>,
    /// The head commit of the source branch.
    pub head_sha: String,
    /// The merge base of both branches.
    pub base_sha: String,
    /// The head commit of the target branch when the merge base was determined.
    pub start_sha: String,
    /// The result of the last mergeability check.
    pub merge_status: MergeStatus,
    /// The commits that were checked.
    pub merge_status_of: Option<String>,
    /// Why the merge failed.
    pub merge_error: Option<String>,
    /// Whether its commits are squashed.
    pub squash: bool,
    /// Whether its author wants the source branch removed.
    pub force_remove_source_branch: Option<bool>,
    /// Whether the merging user wants the source branch removed.
    pub should_remove_source_branch: Option<bool>,
    /// Whether members of the target project may push to the source branch.
    pub allow_collaboration: bool,
    /// Whether it is merged automatically when its pipeline succeeds.
    pub merge_when_pipeline_succeeds: bool,
    /// The user who enabled auto-merge.
    pub merge_user_id: Option<i64>,
    /// The message of the merge commit of the automatic merge; none for the default message.
    pub merge_commit_message: Option<String>,
    /// The message of the squash commit of the automatic merge; none for the default message.
    pub squash_commit_message: Option<String>,
    /// The plan of a merge that is about to happen, and the approved automatic merge, as JSON.
    pub merge_params: Option<String>,
    /// The merge commit.
    pub merge_commit_sha: Option<String>,
    /// The squash commit.
    pub squash_commit_sha: Option<String>,
    /// The user who merged it; none if deleted.
    pub merged_by_id: Option<i64>,
    /// When it was merged.
    pub merged_at: Option<DateTime<Utc>>,
    /// The user who closed it; none if deleted.
    pub closed_by_id: Option<i64>,
    /// When it was closed.
    pub closed_at: Option<DateTime<Utc>>,
    /// Estimated time in seconds.
    pub time_estimate: i64,
    /// Spent time in seconds.
    pub total_time_spent: i64,
    /// Number of `thumbsup` awards.
    pub upvotes: i32,
    /// Number of `thumbsdown` awards.
    pub downvotes: i32,
    /// Number of notes by users.
    pub user_notes_count: i32,
    /// Number of tasks in the description.
    pub tasks: i32,
    /// Number of completed tasks.
    pub completed_tasks: i32,
    /// When the title or description was last changed.
    pub last_edited_at: Option<DateTime<Utc>>,
    /// The user who changed them.
    pub last_edited_by_id: Option<i64>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The target project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::TargetProjectId",
        to = "super::projects::Column::Id"
    )]
    TargetProject,
    /// The creator.
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

/// Selects a merge request of a project by IID.
pub fn by_iid(project_id: i64, iid: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::TargetProjectId.eq(project_id))
        .filter(Column::Iid.eq(iid))
}

/// Locks a merge request until the transaction ends; returns none if it does not exist. Rows that reference
/// it may be inserted meanwhile; otherwise two that reference each other could deadlock.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock(LockType::NoKeyUpdate).one(db).await
}

/// Returns a condition on `merge_requests`, evaluated for each row, for merge requests of visible projects
/// whose merge requests and code are available to the viewer.
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    Condition::all().add(in_projects(access::projects_with_merge_requests(viewer, today)))
}

/// Returns a condition for merge requests whose target project meets a condition on `projects`, evaluated for
/// each row.
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
    has_rows(&mut project)
}

/// Returns the names of the branches of a project that are the source or target branch of an open merge request.
///
/// # Errors
/// Any database error.
pub async fn open_branches(db: &impl ConnectionTrait, project_id: i64) -> Result<HashSet<String>, DbErr> {
    let mut names = HashSet::new();
    for (project, branch) in [
        (Column::SourceProjectId, Column::SourceBranch),
        (Column::TargetProjectId, Column::TargetBranch),
    ] {
        let found: Vec<String> = Entity::find()
            .select_only()
            .column(branch)
            .distinct()
            .filter(project.eq(project_id))
            .filter(Column::State.eq(MergeRequestState::Opened))
            .into_tuple()
            .all(db)
            .await?;
        names.extend(found);
    }
    Ok(names)
}

/// Selects the open merge request between two branches; at most one exists.
pub fn open_between(source: (i64, &str), target: (i64, &str)) -> Select<Entity> {
    Entity::find()
        .filter(Column::SourceProjectId.eq(source.0))
        .filter(Column::SourceBranch.eq(source.1))
        .filter(Column::TargetProjectId.eq(target.0))
        .filter(Column::TargetBranch.eq(target.1))
        .filter(Column::State.eq(MergeRequestState::Opened))
}
