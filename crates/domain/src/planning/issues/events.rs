//! Events of changed issues, and the number of open issues of a project.

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::issues::{IssueState, Model};
use storage::entities::projects;

use crate::kernel::error::Result;
use crate::planning::issuables::events::{self, IssuableChange};

/// Updates the project's number of open issues, and publishes the change as [`events::publish`] does.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn publish(
    transaction: &DatabaseTransaction,
    change: IssuableChange<'_, Model>,
) -> Result<()> {
    let difference = open_count(change.after) - change.before.map_or(0, open_count);
    add_to_open_issues(transaction, change.after.project_id, difference).await?;
    events::publish(transaction, change).await
}

/// Returns 1 for an issue in the project's number of open issues, which excludes confidential ones.
pub(super) fn open_count(issue: &Model) -> i32 {
    i32::from(issue.state == IssueState::Opened && !issue.confidential)
}

/// Adds to the project's number of open issues.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn add_to_open_issues(
    transaction: &DatabaseTransaction,
    project_id: i64,
    difference: i32,
) -> Result<()> {
    if difference == 0 {
        return Ok(());
    }
    let column = projects::Column::OpenIssuesCount;
    projects::Entity::update_many()
        .col_expr(column, Expr::col(column).add(difference))
        .filter(projects::Column::Id.eq(project_id))
        .exec(transaction)
        .await?;
    Ok(())
}
