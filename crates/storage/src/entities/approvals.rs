//! Approvals of merge requests.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, Query};

use super::related_rows::RelatedPart;
use super::{merge_requests, projects};

/// Approvals of merge requests.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "approvals")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The merge request.
    pub merge_request_id: i64,
    /// The user who approved.
    pub user_id: i64,
    /// When the user approved.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns a part with the times of the approvals of a merge request, by the IDs of their users, oldest first.
#[must_use]
pub fn part(merge_request_id: i64) -> RelatedPart {
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::MergeRequestId.eq(merge_request_id))
        .take();
    RelatedPart::new(rows, Column::MergeRequestId.into_expr())
        .sorted_by(Column::Id.into_expr())
        .with_id(Column::UserId.into_expr())
        .with_time(Column::CreatedAt.into_expr())
}

/// Deletes all approvals of a merge request, and returns whether there were any.
///
/// # Errors
/// Any database error.
pub async fn delete_all(db: &impl ConnectionTrait, merge_request_id: i64) -> Result<bool, DbErr> {
    let deleted = Entity::delete_many()
        .filter(Column::MergeRequestId.eq(merge_request_id))
        .exec(db)
        .await?;
    Ok(deleted.rows_affected > 0)
}

/// Deletes all approvals of a merge request whose code changed, if the target project requires this. Returns whether there
/// were any. The merge request must be locked.
///
/// # Errors
/// Any database error.
pub async fn reset(db: &impl ConnectionTrait, merge_request: &merge_requests::Model) -> Result<bool, DbErr> {
    let resets = Query::select()
        .expr(Expr::val(1))
        .from(projects::Entity)
        .and_where(projects::Column::Id.eq(merge_request.target_project_id))
        .and_where(projects::Column::ResetApprovalsOnPush.eq(true))
        .take();
    let deleted = Entity::delete_many()
        .filter(Column::MergeRequestId.eq(merge_request.id))
        .filter(Expr::exists(resets))
        .exec(db)
        .await?;
    Ok(deleted.rows_affected > 0)
}
