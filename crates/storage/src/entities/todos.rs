//! To-do items of users, created by assignments, mentions and other events, or by the users themselves. A user
//! has at most one pending to-do item for each target.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ActiveValue::Set, Condition};

use super::access::{self, Viewer};
use super::{AccessLevel, epics, issues, merge_requests, notes};

/// Reason for a to-do item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum TodoAction {
    /// The target was assigned to the user.
    Assigned,
    /// A text mentions the user.
    Mentioned,
    /// A pipeline failed.
    BuildFailed,
    /// The user added it.
    Marked,
    /// The user is asked to approve.
    ApprovalRequired,
    /// A merge request cannot be merged.
    Unmergeable,
    /// A text starts with a mention of the user.
    DirectlyAddressed,
}

/// State of a to-do item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum TodoState {
    /// Pending.
    Pending,
    /// Done.
    Done,
}

/// Target of a to-do item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TodoTarget {
    /// An issue, by its ID.
    Issue(i64),
    /// A merge request, by its ID.
    MergeRequest(i64),
    /// An epic, by its ID.
    Epic(i64),
}

impl TodoTarget {
    /// Returns a row with only the target set.
    #[must_use]
    pub fn to_row(self) -> ActiveModel {
        let mut row = <ActiveModel as Default>::default();
        match self {
            Self::Issue(id) => row.issue_id = Set(Some(id)),
            Self::MergeRequest(id) => row.merge_request_id = Set(Some(id)),
            Self::Epic(id) => row.epic_id = Set(Some(id)),
        }
        row
    }

    /// Returns a condition for rows with the target.
    #[must_use]
    pub fn condition(self) -> Expr {
        match self {
            Self::Issue(id) => Column::IssueId.eq(id),
            Self::MergeRequest(id) => Column::MergeRequestId.eq(id),
            Self::Epic(id) => Column::EpicId.eq(id),
        }
    }
}

/// To-do items of users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "todos")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The user who caused it; none if deleted.
    pub author_id: Option<i64>,
    /// The project, if the target is in one.
    pub project_id: Option<i64>,
    /// The group, if the target is in no project.
    pub namespace_id: Option<i64>,
    /// The issue, if it is the target.
    pub issue_id: Option<i64>,
    /// The merge request, if it is the target.
    pub merge_request_id: Option<i64>,
    /// The epic, if it is the target.
    pub epic_id: Option<i64>,
    /// The note that caused it.
    pub note_id: Option<i64>,
    /// The reason.
    pub action: TodoAction,
    /// The state.
    pub state: TodoState,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The note that caused it.
    #[sea_orm(
        belongs_to = "notes::Entity",
        from = "Column::NoteId",
        to = "notes::Column::Id"
    )]
    Note,
}

impl Related<notes::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Note.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// Returns the target.
    #[must_use]
    pub fn target(&self) -> Option<TodoTarget> {
        let issue = self.issue_id.map(TodoTarget::Issue);
        let merge_request = self.merge_request_id.map(TodoTarget::MergeRequest);
        issue.or(merge_request).or(self.epic_id.map(TodoTarget::Epic))
    }
}

/// Returns a condition on `todos`, evaluated for each row, for to-do items whose target and causing note are
/// still visible to the viewer.
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    let in_projects = |try_project: fn(Condition) -> Expr| {
        readable_note(viewer, |id| {
            try_project(access::projects_with_level(id, AccessLevel::Reporter, today))
        })
    };
    let on_issue = about("issues", Column::IssueId)
        .cond_where(issues::visible(viewer, today))
        .cond_where(in_projects(issues::in_projects))
        .take();
    let on_merge_request = about("merge_requests", Column::MergeRequestId)
        .cond_where(merge_requests::visible(viewer, today))
        .cond_where(in_projects(merge_requests::in_projects))
        .take();
    let on_epic = about("epics", Column::EpicId)
        .cond_where(epics::visible(viewer, today))
        .cond_where(readable_note(viewer, |id| {
            epics::in_groups(access::groups_with_level(id, AccessLevel::Reporter, today))
        }))
        .take();
    Condition::any()
        .add(Expr::exists(on_issue))
        .add(Expr::exists(on_merge_request))
        .add(Expr::exists(on_epic))
}

/// Selects the target of a row.
fn about(table: &'static str, column: Column) -> SelectStatement {
    Query::select()
        .expr(Expr::val(1))
        .from(table)
        .and_where(Expr::col((table, "id")).eq(Expr::col((Entity, column))))
        .take()
}

/// Returns a condition for rows without a note that the viewer cannot read; `reporter` tests whether a user
/// may read confidential notes.
fn readable_note(viewer: Viewer, reporter: impl Fn(i64) -> Expr) -> Condition {
    const NOTE: &str = "causing_note";
    let note = |of_others: Option<i64>| {
        let author = Expr::col((NOTE, notes::Column::AuthorId));
        Query::select()
            .expr(Expr::val(1))
            .from_as(notes::Entity, NOTE)
            .and_where(Expr::col((NOTE, notes::Column::Id)).eq(Expr::col((Entity, Column::NoteId))))
            .and_where(Expr::col((NOTE, notes::Column::Confidential)).eq(true))
            .and_where_option(of_others.map(|id| author.clone().is_null().or(author.ne(id))))
            .take()
    };
    match viewer {
        Viewer::Admin => Condition::all(),
        Viewer::Anonymous => Condition::all().add(Expr::exists(note(None)).not()),
        Viewer::User { id, .. } => Condition::any()
            .add(Expr::exists(note(Some(id))).not())
            .add(reporter(id)),
    }
}
