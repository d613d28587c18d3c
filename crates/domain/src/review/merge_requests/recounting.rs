//! Refreshes the closing issues of a whole project after a change that affects all of its merge requests.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::merge_requests::{Column, Entity, MergeRequestState};
use storage::entities::{closing_merge_requests, projects};

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::review::merge_requests::closing_issues;

/// Number of merge requests that are read at a time.
const BATCH: u64 = 100;

/// Refreshes the closing issues of the merge requests of a project. Those into the default branch close the
/// issues in their texts, if the project closes issues; all others close none. Merged ones are unchanged. The
/// operation is idempotent.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub async fn recount_closing(backend: &Backend, project_id: i64) -> Result<()> {
    let db = backend.database.read();
    let Some(project) = projects::Entity::find_by_id(project_id).one(db).await? else {
        return Ok(());
    };
    let branch = project
        .default_branch
        .filter(|_| project.autoclose_referenced_issues);
    let closes_something = Query::select()
        .expr(Expr::val(1))
        .from(closing_merge_requests::Entity)
        .and_where(
            Expr::col((
                closing_merge_requests::Entity,
                closing_merge_requests::Column::MergeRequestId,
            ))
            .eq(Expr::col((Entity, Column::Id))),
        )
        .take();
    let concerned = Condition::any()
        .add(Expr::exists(closes_something))
        .add_option(branch.as_ref().map(|branch| Column::TargetBranch.eq(branch)));
    let mut after = 0;
    loop {
        let batch = Entity::find()
            .filter(Column::TargetProjectId.eq(project_id))
            .filter(Column::State.ne(MergeRequestState::Merged))
            .filter(Column::Id.gt(after))
            .filter(concerned.clone())
            .order_by_asc(Column::Id)
            .limit(BATCH)
            .all(db)
            .await?;
        let Some(last) = batch.last() else {
            return Ok(());
        };
        after = last.id;
        for found in &batch {
            match branch.as_ref() == Some(&found.target_branch) {
                true => closing_issues::renew(backend, found.id).await?,
                false => closing_issues::forget(backend, found.id).await?,
            }
        }
    }
}
