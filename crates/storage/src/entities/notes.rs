//! Notes on issues, merge requests, snippets and epics (specification 2.4): each belongs to exactly one.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::Condition;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Query};

use super::access::{Viewer, code_readable_projects, projects_with_level};
use super::{AccessLevel, issues, merge_requests, snippets};

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
    /// The merge request.
    #[sea_orm(
        belongs_to = "super::merge_requests::Entity",
        from = "Column::MergeRequestId",
        to = "super::merge_requests::Column::Id"
    )]
    MergeRequest,
    /// The snippet.
    #[sea_orm(
        belongs_to = "super::snippets::Entity",
        from = "Column::SnippetId",
        to = "super::snippets::Column::Id"
    )]
    Snippet,
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

impl Related<merge_requests::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::MergeRequest.def()
    }
}

impl Related<snippets::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Snippet.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Notes that somebody may see, as a condition on `notes` that is looked at row by row: those on issues, merge requests
/// and snippets that they see; confidential ones for their authors, and from Reporter on.
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    let on_issue = Query::select()
        .expr(Expr::val(1))
        .from(issues::Entity)
        .and_where(Expr::col((issues::Entity, issues::Column::Id)).eq(Expr::col((Entity, Column::IssueId))))
        .cond_where(issues::visible(viewer, today))
        .cond_where(seen(viewer, today, issues::in_projects))
        .take();
    let on_merge_request = Query::select()
        .expr(Expr::val(1))
        .from(merge_requests::Entity)
        .and_where(
            Expr::col((merge_requests::Entity, merge_requests::Column::Id))
                .eq(Expr::col((Entity, Column::MergeRequestId))),
        )
        .cond_where(merge_requests::visible(viewer, today))
        .cond_where(seen(viewer, today, merge_requests::in_projects))
        .take();
    let on_snippet = Query::select()
        .expr(Expr::val(1))
        .from(snippets::Entity)
        .and_where(
            Expr::col((snippets::Entity, snippets::Column::Id)).eq(Expr::col((Entity, Column::SnippetId))),
        )
        .cond_where(snippets::visible(viewer, today))
        .cond_where(seen(viewer, today, snippets::in_projects))
        .take();
    Condition::any()
        .add(Expr::exists(on_issue))
        .add(Expr::exists(on_merge_request))
        .add(Expr::exists(on_snippet))
}

/// Notes that name nothing which somebody may not see, as a condition on `notes` that is looked at row by row.
pub fn naming_visible(viewer: Viewer, today: NaiveDate) -> Condition {
    let sees = |table: &'static str, column: Column, seen: Condition| {
        let named = Query::select()
            .expr(Expr::val(1))
            .from(table)
            .and_where(Expr::col((table, "id")).eq(Expr::col((Entity, column))))
            .cond_where(seen)
            .take();
        Expr::col((Entity, column)).is_null().or(Expr::exists(named))
    };
    Condition::all()
        .add(sees(
            "issues",
            Column::ReferencedIssueId,
            issues::visible(viewer, today),
        ))
        .add(sees(
            "merge_requests",
            Column::ReferencedMergeRequestId,
            merge_requests::visible(viewer, today),
        ))
        .add(sees(
            "projects",
            Column::ReferencedProjectId,
            code_readable_projects(viewer, today),
        ))
}

/// Of the notes on things that somebody sees, those that they may see; `in_projects` tries the project of the thing.
fn seen(viewer: Viewer, today: NaiveDate, in_projects: impl Fn(Condition) -> Expr) -> Condition {
    let open = Expr::col((Entity, Column::Confidential)).eq(false);
    match viewer {
        Viewer::Admin => Condition::all(),
        Viewer::Anonymous => Condition::all().add(open),
        Viewer::User { id, .. } => Condition::any()
            .add(open)
            .add(Expr::col((Entity, Column::AuthorId)).eq(id))
            .add(in_projects(projects_with_level(id, AccessLevel::Reporter, today))),
    }
}
