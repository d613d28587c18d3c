//! A merge request with the rows that are joined to its own.

use sea_orm::sea_query::ExprTrait;
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, FromQueryResult, QueryFilter, QueryTrait};
use storage::entities::merge_requests::{self, Column as MergeRequest, Model};
use storage::entities::pipelines::{self, Column as Pipeline};
use storage::entities::{milestones, now};

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
        pipelines::join_newest(&mut query, |column| {
            Condition::all()
                .add(column(Pipeline::ProjectId).eq(MergeRequest::SourceProjectId.into_expr()))
                .add(column(Pipeline::Sha).eq(MergeRequest::HeadSha.into_expr()))
                .add(column(Pipeline::RefName).eq(MergeRequest::SourceBranch.into_expr()))
                .add(column(Pipeline::Tag).eq(false))
        });
        let row = db.query_one(&query).await?;
        let row = row.ok_or_else(|| Error::not_found("MergeRequest"))?;
        Ok(Self {
            merge_request: Model::from_query_result(&row, "A_")?,
            milestone: milestones::Model::from_query_result_optional(&row, "B_")?,
            pipeline: pipelines::read_joined(&row)?,
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
