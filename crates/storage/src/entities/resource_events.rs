//! Events of the labels, the state and the milestone of issues and merge requests.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, Query};
use sea_orm::{Condition, QueryOrder, QuerySelect, QueryTrait};

use super::issuables::IssuableKind;
use super::row_conditions::has_rows;
use super::{Scope, labels, milestones};

/// The attribute that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum ResourceEventKind {
    /// A label.
    Label,
    /// The state.
    State,
    /// The milestone.
    Milestone,
}

/// The change of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum ResourceEventAction {
    /// The label or milestone was added.
    Add,
    /// The label or milestone was removed.
    Remove,
    /// The issue or merge request was closed.
    Closed,
    /// The issue or merge request was reopened.
    Reopened,
    /// The merge request was merged.
    Merged,
}

/// Events of the labels, the state and the milestone of issues and merge requests.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "resource_events")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue; none for a merge request.
    pub issue_id: Option<i64>,
    /// The merge request; none for an issue.
    pub merge_request_id: Option<i64>,
    /// The attribute.
    pub kind: ResourceEventKind,
    /// The change.
    pub action: ResourceEventAction,
    /// The user who made the change; none if deleted or unknown.
    pub user_id: Option<i64>,
    /// The label, which may have been deleted.
    pub label_id: Option<i64>,
    /// The milestone, which may have been deleted.
    pub milestone_id: Option<i64>,
    /// When the change was made.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the events of an issuable of a project, oldest first. Events of labels and milestones that do not belong to
/// the project or an ancestor of its namespace are left out, and so are events of deleted milestones.
pub fn of_issuable(
    (kind, id): (IssuableKind, i64),
    event_kind: ResourceEventKind,
    scope: Scope,
    namespace_id: i64,
) -> Select<Entity> {
    let owner = match kind {
        IssuableKind::Issue => Column::IssueId,
        IssuableKind::MergeRequest => Column::MergeRequestId,
    };
    let found = Entity::find()
        .filter(owner.eq(id))
        .filter(Column::Kind.eq(event_kind))
        .order_by_asc(Column::Id);
    match event_kind {
        ResourceEventKind::State => found,
        ResourceEventKind::Label => {
            let available = labels::available(scope, namespace_id)
                .select_only()
                .column(labels::Column::Id)
                .into_query();
            let mut existing = Query::select()
                .expr(Expr::val(1))
                .from(labels::Entity)
                .and_where(
                    Expr::col((labels::Entity, labels::Column::Id)).eq(Expr::col((Entity, Column::LabelId))),
                )
                .take();
            let is_shown = Condition::any()
                .add(Column::LabelId.in_subquery(available))
                .add(has_rows(&mut existing).not());
            found.filter(is_shown)
        }
        ResourceEventKind::Milestone => {
            let available = milestones::available(scope, namespace_id)
                .select_only()
                .column(milestones::Column::Id)
                .into_query();
            found.filter(Column::MilestoneId.in_subquery(available))
        }
    }
}
