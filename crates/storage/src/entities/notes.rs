//! Notes on issues, merge requests, snippets and epics. Each belongs to exactly one noteable.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{Condition, DbBackend};

use super::access::{Viewer, code_readable_projects, projects_with_level};
use super::related_rows::RelatedPart;
use super::{AccessLevel, issues, merge_requests, snippets};

/// Kind of a note that is not a plain note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum NoteKind {
    /// A note on a line of a diff.
    Diff,
    /// A note of a discussion.
    Discussion,
}

/// Notes on issues, merge requests, snippets and epics. Each belongs to exactly one noteable.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "notes")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue, if it belongs to one.
    pub issue_id: Option<i64>,
    /// The merge request, if it belongs to one.
    pub merge_request_id: Option<i64>,
    /// The snippet, if it belongs to one.
    pub snippet_id: Option<i64>,
    /// The epic, if it belongs to one.
    pub epic_id: Option<i64>,
    /// The author; none if the user was deleted.
    pub author_id: Option<i64>,
    /// The kind, if it is not a plain note.
    pub kind: Option<NoteKind>,
    /// The ID of the discussion.
    pub discussion_id: Option<String>,
    /// The text.
    pub body: String,
    /// Whether it is a system note.
    pub system: bool,
    /// Whether only its author and members from Reporter on can see it.
    pub confidential: bool,
    /// The position in a diff, as JSON.
    pub position: Option<String>,
    /// The issue that a system note refers to; the note is visible only if the issue is.
    pub referenced_issue_id: Option<i64>,
    /// The merge request that a system note refers to.
    pub referenced_merge_request_id: Option<i64>,
    /// The project of a commit that a system note refers to.
    pub referenced_project_id: Option<i64>,
    /// When it was resolved.
    pub resolved_at: Option<DateTime<Utc>>,
    /// The user who resolved it.
    pub resolved_by_id: Option<i64>,
    /// The user who last changed it.
    pub updated_by_id: Option<i64>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The author.
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

/// Returns a condition on `notes`, evaluated for each row, for visible notes. These are notes on visible
/// issues, merge requests and snippets; confidential ones are visible to authors and members from Reporter
/// on.
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

/// Returns a condition on `notes`, evaluated for each row, for notes whose cross-references are all visible.
pub fn visible_cross_references(viewer: Viewer, today: NaiveDate) -> Condition {
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

/// Returns a condition for visible notes on visible noteables; `in_projects` tests the project of the
/// noteable.
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

/// Returns a part with a row for each of these merge requests that has an unresolved discussion; none without IDs.
#[must_use]
pub fn unresolved_part(database: DbBackend, merge_request_ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select()
        .distinct()
        .from(Entity)
        .and_where(Column::Kind.is_not_null())
        .and_where(Column::System.eq(false))
        .and_where(Column::ResolvedAt.is_null())
        .take();
    RelatedPart::of_owners(
        database,
        rows,
        Column::MergeRequestId.into_expr(),
        merge_request_ids,
    )
}
