//! Approvals of merge requests.

use chrono::{DateTime, Utc};
use sea_orm::Condition;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Query};

use super::related_rows::RelatedPart;
use super::{merge_requests, namespace_ancestors, namespaces, projects};

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

/// Deletes all approvals of a merge request whose code changed, if the target project or a group above it requires this. Returns whether there
/// were any. The merge request must be locked.
///
/// # Errors
/// Any database error.
pub async fn reset(db: &impl ConnectionTrait, merge_request: &merge_requests::Model) -> Result<bool, DbErr> {
    let project = Query::select()
        .expr(Expr::val(1))
        .from(projects::Entity)
        .and_where(projects::Column::Id.eq(merge_request.target_project_id))
        .take();
    let mut resets = project.clone();
    resets.and_where(projects::Column::ResetApprovalsOnPush.eq(true));
    let mut is_locked = project;
    let in_namespace = namespace_ancestors::Column::NamespaceId
        .into_expr()
        .eq(projects::Column::NamespaceId.into_expr());
    let is_above = namespaces::Column::Id
        .into_expr()
        .eq(namespace_ancestors::Column::AncestorId.into_expr());
    is_locked
        .inner_join(namespace_ancestors::Entity, in_namespace)
        .inner_join(namespaces::Entity, is_above)
        .and_where(namespaces::Column::RetainApprovalsOnPush.eq(false));
    let is_required = Condition::any()
        .add(Expr::exists(resets))
        .add(Expr::exists(is_locked));
    let deleted = Entity::delete_many()
        .filter(Column::MergeRequestId.eq(merge_request.id))
        .filter(is_required)
        .exec(db)
        .await?;
    Ok(deleted.rows_affected > 0)
}
