//! Notes on issues, merge requests, snippets and epics (specification 2.4): each belongs to exactly one.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::Condition;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Query};

use super::access::{Viewer, projects_with_level};
use super::{AccessLevel, issues};

/// What else than a plain note a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Kind {
    /// A note on a line of a change.
    Diff,
    /// A note of a discussion.
    Discussion,
}

/// Notes on issues, merge requests, snippets and epics (specification 2.4): each belongs to exactly one.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notes")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue it belongs to, if it is one.
    pub issue_id: Option<i64>,
    /// The merge request it belongs to, if it is one.
    pub merge_request_id: Option<i64>,
    /// The snippet it belongs to, if it is one.
    pub snippet_id: Option<i64>,
    /// The epic it belongs to, if it is one.
    pub epic_id: Option<i64>,
    /// Who wrote it; none when the user is gone.
    pub author_id: Option<i64>,
    /// What else than a plain note it is.
    pub kind: Option<Kind>,
    /// The discussion it belongs to.
    pub discussion_id: Option<String>,
    /// What it says.
    pub body: String,
    /// It tells of a change, and nobody wrote it.
    pub system: bool,
    /// Only members from Reporter on see it, and its author.
    pub confidential: bool,
    /// Where in a change it stands, as JSON.
    pub position: Option<String>,
    /// The issue that a note of the system names: who may not see it does not see the note.
    pub referenced_issue_id: Option<i64>,
    /// The same of a merge request.
    pub referenced_merge_request_id: Option<i64>,
    /// The same of a project, by one of its commits.
    pub referenced_project_id: Option<i64>,
    /// When it was resolved.
    pub resolved_at: Option<DateTime<Utc>>,
    /// Who resolved it.
    pub resolved_by_id: Option<i64>,
    /// Who changed it last.
    pub updated_by_id: Option<i64>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Who wrote it.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::AuthorId",
        to = "super::users::Column::Id"
    )]
    Author,
    /// The issue.
    #[sea_orm(
        belongs_to = "super::issues::Entity",
        from = "Column::IssueId",
        to = "super::issues::Column::Id"
    )]
    Issue,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Author.def()
    }
}

impl Related<issues::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Issue.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Notes that somebody may see, as a condition on `notes` that is looked at row by row: those on issues they see;
/// confidential ones for their authors, and from Reporter on.
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    let open = Expr::col((Entity, Column::Confidential)).eq(false);
    let seen = match viewer {
        Viewer::Admin => Condition::all(),
        Viewer::Anonymous => Condition::all().add(open),
        Viewer::User { id, .. } => Condition::any()
            .add(open)
            .add(Expr::col((Entity, Column::AuthorId)).eq(id))
            .add(issues::in_projects(projects_with_level(
                id,
                AccessLevel::Reporter,
                today,
            ))),
    };
    let on_issue = Query::select()
        .expr(Expr::val(1))
        .from(issues::Entity)
        .and_where(Expr::col((issues::Entity, issues::Column::Id)).eq(Expr::col((Entity, Column::IssueId))))
        .cond_where(issues::visible(viewer, today))
        .cond_where(seen)
        .take();
    Condition::all().add(Expr::exists(on_issue))
}
