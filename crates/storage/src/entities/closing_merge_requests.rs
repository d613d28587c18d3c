//! Issues that a merge request closes when it is merged.

use chrono::NaiveDate;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, Query};
use sea_orm::{DbBackend, QueryOrder, QuerySelect, QueryTrait};

use super::access::Viewer;
use super::related_rows::RelatedPart;
use super::{issues, merge_requests};

/// Issues that a merge request closes when it is merged.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "closing_merge_requests")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The merge request.
    pub merge_request_id: i64,
    /// The issue.
    pub issue_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The merge request.
    #[sea_orm(
        belongs_to = "super::merge_requests::Entity",
        from = "Column::MergeRequestId",
        to = "super::merge_requests::Column::Id"
    )]
    MergeRequest,
    /// The issue.
    #[sea_orm(
        belongs_to = "super::issues::Entity",
        from = "Column::IssueId",
        to = "super::issues::Column::Id"
    )]
    Issue,
}

impl Related<merge_requests::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::MergeRequest.def()
    }
}

impl Related<issues::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Issue.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the issues that a merge request closes when it is merged, ordered by ID.
///
/// # Errors
/// Any database error.
pub async fn closed_by(
    db: &impl ConnectionTrait,
    merge_request_id: i64,
) -> Result<Vec<issues::IssueKey>, DbErr> {
    let closed = Entity::find()
        .select_only()
        .column(Column::IssueId)
        .filter(Column::MergeRequestId.eq(merge_request_id))
        .into_query();
    let closed = issues::Entity::find()
        .filter(issues::Column::Id.in_subquery(closed))
        .order_by_asc(issues::Column::Id);
    issues::keys(db, closed).await
}

/// Returns a part with the number of merge requests visible to the viewer that close each issue. Issues without such
/// merge requests have no row.
#[must_use]
pub fn visible_counts_part(
    database: DbBackend,
    viewer: Viewer,
    today: NaiveDate,
    issue_ids: &[i64],
) -> Option<RelatedPart> {
    let closes = merge_requests::Column::Id
        .into_expr()
        .eq(Column::MergeRequestId.into_expr());
    let issue_id = || Column::IssueId.into_expr();
    let rows = Query::select()
        .from(Entity)
        .cross_join(merge_requests::Entity)
        .and_where(closes)
        .cond_where(merge_requests::visible(viewer, today))
        .add_group_by([issue_id()])
        .take();
    let part = RelatedPart::of_owners(database, rows, issue_id(), issue_ids)?;
    Some(part.with_number(Column::Id.count()))
}
