//! Issues of projects.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, LockType, Query};
use sea_orm::{Condition, DbBackend, FromQueryResult, QuerySelect};

use super::access::{self, Viewer};
use super::related_rows::RelatedPart;
use super::row_conditions::has_rows;
use super::{AccessLevel, issue_assignees, projects};

/// State of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum IssueState {
    /// Open.
    Opened,
    /// Closed.
    Closed,
}

/// Issues of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "issues")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The IID within the project.
    pub iid: i64,
    /// The creator; none if the user was deleted.
    pub author_id: Option<i64>,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// The state.
    pub state: IssueState,
    /// Whether only its author, its assignees and members from Reporter on can see it.
    pub confidential: bool,
    /// Whether only members may comment.
    pub discussion_locked: bool,
    /// The milestone.
    pub milestone_id: Option<i64>,
    /// The due date of the milestone, copied here for sorting.
    pub milestone_due_on: Option<NaiveDate>,
    /// The lowest priority of its labels in the project, stored here for sorting.
    pub label_priority: Option<i32>,
    /// The due date.
    pub due_date: Option<NaiveDate>,
    /// The weight.
    pub weight: Option<i32>,
    /// The position on boards, ascending.
    pub relative_position: Option<i64>,
    /// The issue that it was moved to.
    pub moved_to_id: Option<i64>,
    /// When it was closed.
    pub closed_at: Option<DateTime<Utc>>,
    /// The user who closed it; none if deleted.
    pub closed_by_id: Option<i64>,
    /// Number of merge requests that close it.
    pub merge_requests_count: i32,
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
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
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
        Relation::Project.def()
    }
}

impl Related<super::milestones::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Milestone.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects an issue of a project by IID.
pub fn by_iid(project_id: i64, iid: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::Iid.eq(iid))
}

/// An issue without its texts, which can be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromQueryResult)]
pub struct IssueKey {
    /// The ID.
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The IID within the project.
    pub iid: i64,
    /// Whether it is visible only to the author, the assignees and members from Reporter.
    pub confidential: bool,
}

/// Returns the selected issues without their texts.
///
/// # Errors
/// Any database error.
pub async fn keys(db: &impl ConnectionTrait, issues: Select<Entity>) -> Result<Vec<IssueKey>, DbErr> {
    let columns = [Column::Id, Column::ProjectId, Column::Iid, Column::Confidential];
    let keys = issues.select_only().columns(columns).into_model::<IssueKey>();
    keys.all(db).await
}

/// Locks an issue until the transaction ends; returns none if it does not exist. Rows that reference it may
/// be inserted meanwhile; otherwise two issues that reference each other could deadlock.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock(LockType::NoKeyUpdate).one(db).await
}

/// Returns a condition on `issues`, evaluated for each row, for visible issues. These are issues of visible
/// projects with available issues; confidential ones are visible to authors, assignees and members from
/// Reporter on.
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

/// Returns a condition for issues whose project meets a condition on `projects`, evaluated for each row.
pub fn in_projects(condition: Condition) -> Expr {
    let mut project = Query::select()
        .expr(Expr::val(1))
        .from(projects::Entity)
        .and_where(
            Expr::col((projects::Entity, projects::Column::Id)).eq(Expr::col((Entity, Column::ProjectId))),
        )
        .cond_where(condition)
        .take();
    has_rows(&mut project)
}

/// Returns a condition for issues that are assigned to a user, evaluated for each row.
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
    has_rows(&mut row)
}

/// Returns a part with a row for each of these issues that is visible to the viewer; none without IDs.
#[must_use]
pub fn visible_part(
    database: DbBackend,
    viewer: Viewer,
    today: NaiveDate,
    ids: &[i64],
) -> Option<RelatedPart> {
    let rows = Query::select()
        .from(Entity)
        .cond_where(visible(viewer, today))
        .take();
    RelatedPart::of_owners(database, rows, Column::Id.into_expr(), ids)
}
