//! A merge request with the rows that are joined to its own.

use sea_orm::sea_query::{Expr, ExprTrait, JoinType, Query, SubQueryStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, FromQueryResult, IdenStatic, Iterable, QueryFilter, QueryTrait};
use storage::entities::merge_requests::{self, Model};
use storage::entities::{milestones, now, pipelines};

use super::head_pipeline;
use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::with_milestones;

/// A merge request with its milestone and its head pipeline.
#[derive(Debug, Clone)]
pub(super) struct JoinedMergeRequest {
    /// The merge request.
    pub merge_request: Model,
    /// The milestone.
    pub milestone: Option<milestones::Model>,
    /// The head pipeline, without a permission check.
    pub pipeline: Option<pipelines::Model>,
}

/// Prefix of the columns of the pipeline, after those that SeaORM uses for the first two tables.
const PIPELINE_PREFIX: &str = "C_";
/// Alias of the table in which the newest pipeline is searched.
const NEWEST: &str = "newest";

impl JoinedMergeRequest {
    /// Returns a merge request of a project by its IID.
    ///
    /// # Errors
    /// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
    pub async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, iid: i64) -> Result<Self> {
        let visible = merge_requests::visible(access.caller.viewer(), now().date_naive());
        let mut query = merge_requests::by_iid(access.project.id, iid)
            .filter(visible)
            .find_also_related(milestones::Entity)
            .into_query();
        query.join(JoinType::LeftJoin, pipelines::Entity, is_head_pipeline());
        for column in pipelines::Column::iter() {
            let alias = format!("{PIPELINE_PREFIX}{}", column.as_str());
            query.expr_as(column.into_expr(), alias);
        }
        let row = db.query_one(&query).await?;
        let row = row.ok_or_else(|| Error::not_found("MergeRequest"))?;
        Ok(Self {
            merge_request: Model::from_query_result(&row, "A_")?,
            milestone: milestones::Model::from_query_result_optional(&row, "B_")?,
            pipeline: pipelines::Model::from_query_result_optional(&row, PIPELINE_PREFIX)?,
        })
    }

    /// Adds the other rows to a merge request.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn load(db: &impl ConnectionTrait, merge_request: Model) -> Result<Self> {
        let pipeline = head_pipeline::find(db, &merge_request).await?;
        let found = with_milestones(db, vec![merge_request]).await?.pop();
        let (merge_request, milestone) = found.ok_or_else(|| Error::not_found("MergeRequest"))?;
        Ok(Self {
            merge_request,
            milestone,
            pipeline,
        })
    }
}

/// Returns the condition that a pipeline is the newest one for the head on the source branch, in the source project.
fn is_head_pipeline() -> Expr {
    use merge_requests::Column as MergeRequest;
    use pipelines::Column as Pipeline;

    let newest = |column: Pipeline| Expr::col((NEWEST, column));
    // For a plain maximum, PostgreSQL reads all pipelines from the newest on.
    let newest_id = Query::select()
        .expr(newest(Pipeline::Id).add(0).max())
        .from_as(pipelines::Entity, NEWEST)
        .and_where(newest(Pipeline::ProjectId).eq(MergeRequest::SourceProjectId.into_expr()))
        .and_where(newest(Pipeline::Sha).eq(MergeRequest::HeadSha.into_expr()))
        .and_where(newest(Pipeline::RefName).eq(MergeRequest::SourceBranch.into_expr()))
        .take();
    let newest_id = Expr::from(SubQueryStatement::from(newest_id));
    Pipeline::Id.into_expr().eq(newest_id)
}
