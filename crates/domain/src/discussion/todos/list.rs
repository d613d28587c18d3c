//! Lists of to-do items.

use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::todos::{self, Column, Entity, TodoAction, TodoState};
use storage::entities::{namespace_ancestors, now, projects};

use super::detail::{self, TodoDetail};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;

/// Type of the targets of to-do items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TodoTargetKind {
    /// Issues.
    Issue,
    /// Merge requests.
    MergeRequest,
    /// Epics.
    Epic,
}

/// Filter of a list of to-do items; absent values match all.
#[derive(Debug, Clone, Default)]
pub struct TodoFilter {
    /// The reason.
    pub action: Option<TodoAction>,
    /// The user who caused it.
    pub author_id: Option<i64>,
    /// The project.
    pub project_id: Option<i64>,
    /// The group, including all its subgroups and projects.
    pub group_id: Option<i64>,
    /// The state; pending by default.
    pub state: Option<TodoState>,
    /// The type of the target.
    pub target_kind: Option<TodoTargetKind>,
}

/// Lists the items of the caller whose targets are still visible, newest first.
///
/// # Errors
/// Returns `Unauthorized` without a caller, or an error if a database query fails.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    filter: &TodoFilter,
    page: &PageRequest,
) -> Result<Page<TodoDetail>> {
    let db = backend.database.read();
    let query = Entity::find()
        .filter(Column::UserId.eq(caller.signed_in()?.id))
        .filter(Column::State.eq(filter.state.unwrap_or(TodoState::Pending)))
        .filter(filter.condition())
        .filter(todos::visible(caller.viewer(), now().date_naive()))
        .order_by_desc(Column::Id);
    let page = page_of(db, query, page).await?;
    Ok(Page {
        items: detail::details(db, caller, page.items).await?,
        rest: page.rest,
    })
}

impl TodoFilter {
    fn condition(&self) -> Condition {
        let has_kind = self.target_kind.map(|target_kind| match target_kind {
            TodoTargetKind::Issue => Column::IssueId.is_not_null(),
            TodoTargetKind::MergeRequest => Column::MergeRequestId.is_not_null(),
            TodoTargetKind::Epic => Column::EpicId.is_not_null(),
        });
        let in_group = self.group_id.map(|id| {
            Condition::any()
                .add(Column::NamespaceId.in_subquery(groups_below(id)))
                .add(Column::ProjectId.in_subquery(projects_below(id)))
        });
        Condition::all()
            .add_option(self.action.map(|action| Column::Action.eq(action)))
            .add_option(self.author_id.map(|id| Column::AuthorId.eq(id)))
            .add_option(self.project_id.map(|id| Column::ProjectId.eq(id)))
            .add_option(in_group)
            .add_option(has_kind)
    }
}

/// Selects a group and its subgroups.
fn groups_below(id: i64) -> SelectStatement {
    Query::select()
        .column(namespace_ancestors::Column::NamespaceId)
        .from(namespace_ancestors::Entity)
        .and_where(Expr::col(namespace_ancestors::Column::AncestorId).eq(id))
        .take()
}

fn projects_below(id: i64) -> SelectStatement {
    Query::select()
        .column(projects::Column::Id)
        .from(projects::Entity)
        .and_where(Expr::col(projects::Column::NamespaceId).in_subquery(groups_below(id)))
        .take()
}
