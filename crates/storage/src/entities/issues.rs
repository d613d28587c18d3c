//! Issues of projects (specification 2.5).

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, LockType, Query};
use sea_orm::{Condition, QuerySelect};

use super::access::{self, Viewer};
use super::by_row::finds;
use super::{AccessLevel, issue_assignees, projects};

/// Whether an issue is open (specification 3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum State {
    /// It is.
    Opened,
    /// It is done, or will not be.
    Closed,
}

/// Issues of projects (specification 2.5).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "issues")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The number within the project.
    pub iid: i64,
    /// Who made it; none when the user is gone.
    pub author_id: Option<i64>,
    /// What it is about.
    pub title: String,
    /// What there is to say.
    pub description: Option<String>,
    /// Whether it is open (specification 3.6).
    pub state: State,
    /// Only its author, those it is assigned to, and members from Reporter on see it.
    pub confidential: bool,
    /// Only members may comment.
    pub discussion_locked: bool,
    /// The milestone.
    pub milestone_id: Option<i64>,
    /// The day that milestone is to be reached, kept in step with it for the order of lists.
    pub milestone_due_on: Option<NaiveDate>,
    /// The lowest rank that the project gives a label of it, kept in step for the order of lists.
    pub label_priority: Option<i32>,
    /// The day it is due.
    pub due_date: Option<NaiveDate>,
    /// How much it weighs.
    pub weight: Option<i32>,
    /// Where it stands on boards; lower comes first.
    pub relative_position: Option<i64>,
    /// The issue that it went on as, elsewhere.
    pub moved_to_id: Option<i64>,
    /// When it was closed.
    pub closed_at: Option<DateTime<Utc>>,
    /// Who closed it; none when the user is gone.
    pub closed_by_id: Option<i64>,
    /// How many merge requests close it.
    pub merge_requests_count: i32,
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
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
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
        Relation::Project.def()
    }
}

impl Related<super::milestones::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Milestone.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The issue of a project with a number.
pub fn numbered(project_id: i64, iid: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::Iid.eq(iid))
}

/// Locks an issue until the transaction ends; none when it is not there. Rows that name it may be
/// made meanwhile, or two that name each other would wait for each other.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock(LockType::NoKeyUpdate).one(db).await
}

/// Issues that somebody may see, as a condition on `issues` that is looked at row by row: those of visible projects whose
/// issues are there for them; confidential ones for their authors, those they are assigned to, and from Reporter on.
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    let all = Condition::all().add(in_projects(access::projects_with_issues(viewer, today)));
    match viewer {
        Viewer::Admin => all,
        Viewer::Anonymous => all.add(Column::Confidential.eq(false)),
        Viewer::User { id, .. } => all.add(
            Condition::any()
                .add(Column::Confidential.eq(false))
                .add(Column::AuthorId.eq(id))
                .add(assigned_to(id))
                .add(in_projects(access::projects_with_level(
                    id,
                    AccessLevel::Reporter,
                    today,
                ))),
        ),
    }
}

/// Issues whose project meets a condition on `projects`, looked at row by row.
pub fn in_projects(condition: Condition) -> Expr {
    let mut project = Query::select()
        .expr(Expr::val(1))
        .from(projects::Entity)
        .and_where(
            Expr::col((projects::Entity, projects::Column::Id)).eq(Expr::col((Entity, Column::ProjectId))),
        )
        .cond_where(condition)
        .take();
    finds(&mut project)
}

/// Issues that are assigned to a user, looked at row by row.
pub fn assigned_to(user_id: i64) -> Expr {
    let mut row = Query::select()
        .expr(Expr::val(1))
        .from(issue_assignees::Entity)
        .and_where(
            Expr::col((issue_assignees::Entity, issue_assignees::Column::IssueId))
                .eq(Expr::col((Entity, Column::Id))),
        )
        .and_where(Expr::col((issue_assignees::Entity, issue_assignees::Column::UserId)).eq(user_id))
        .take();
    finds(&mut row)
}
