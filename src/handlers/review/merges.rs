//! Commits and changes of merge requests, and merging.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::{Error, Result};
use domain::kernel::page::{Page, PageRequest};
use domain::review::merge_requests::{self, MergeParams};

use crate::api::routes::MergesApi;
use crate::app::App;
use crate::views::code::commit;
use crate::views::delivery::pipeline::{pipeline, reference};
use crate::views::review::merge_request::with_changes;
use contract::{
    AcceptMergeRequestRequest, CancelMergeWhenPipelineSucceedsRequest, Commit,
    CreateMergeRequestPipelineRequest, GetMergeRequestChangesRequest, GetMergeRequestMergeRefRequest,
    ListMergeRequestCommitsRequest, ListMergeRequestPipelinesRequest, MergeRequest, MergeRequestMergeRef,
    MergeRequestRebase, Pipeline, PipelineReference, RebaseMergeRequestRequest,
};

/// Returns whether to wait for a pipeline, from the old and the new parameter name.
fn waits(older: Option<bool>, newer: Option<bool>) -> Result<bool> {
    match (older, newer) {
        (Some(older), Some(newer)) if older != newer => Err(Error::parameter(
            "auto_merge, merge_when_pipeline_succeeds must have the same value",
        )),
        _ => Ok(older.or(newer).unwrap_or(false)),
    }
}

impl MergesApi for App {
    async fn list_merge_request_commits(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestCommitsRequest,
        page: PageRequest,
    ) -> Result<Page<Commit>> {
        let iid = request.merge_request_iid;
        let page = merge_requests::list_commits(&self.backend, &access, iid, &page).await?;
        let url = self.project_url(&access);
        Ok(page.map(|item| commit::with_stats(item, &url)))
    }

    async fn get_merge_request_changes(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestChangesRequest,
    ) -> Result<MergeRequest> {
        let iid = request.merge_request_iid;
        let (detail, diff) = merge_requests::get_changes(&self.backend, &access, iid).await?;
        Ok(with_changes(self.merge_request(detail, &access), diff))
    }

    async fn get_merge_request_merge_ref(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestMergeRefRequest,
    ) -> Result<MergeRequestMergeRef> {
        let iid = request.merge_request_iid;
        let commit = merge_requests::update_merge_ref(&self.backend, &access, iid).await?;
        Ok(MergeRequestMergeRef {
            commit_id: commit.to_string(),
        })
    }

    async fn list_merge_request_pipelines(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestPipelinesRequest,
        page: PageRequest,
    ) -> Result<Page<PipelineReference>> {
        let iid = request.merge_request_iid;
        let (page, path) = merge_requests::list_pipelines(&self.backend, &access, iid, &page).await?;
        Ok(page.map(|row| reference(self.at(&path), &row)))
    }

    async fn create_merge_request_pipeline(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestPipelineRequest,
    ) -> Result<Pipeline> {
        let iid = request.merge_request_iid;
        let (created, path) = merge_requests::create_pipeline(&self.backend, &access, iid).await?;
        Ok(pipeline(self.at(&path), created))
    }

    async fn accept_merge_request(
        &self,
        access: ProjectAccess,
        request: AcceptMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let body = request.body;
        let params = MergeParams {
            sha: body.sha,
            squash: body.squash,
            merge_commit_message: body.merge_commit_message,
            squash_commit_message: body.squash_commit_message,
            should_remove_source_branch: body.should_remove_source_branch,
            merge_when_pipeline_succeeds: waits(body.merge_when_pipeline_succeeds, body.auto_merge)?,
            ..MergeParams::default()
        };
        let detail =
            merge_requests::accept(&self.backend, &access, request.merge_request_iid, params).await?;
        Ok(self.merge_request(detail, &access))
    }

    async fn cancel_merge_when_pipeline_succeeds(
        &self,
        access: ProjectAccess,
        request: CancelMergeWhenPipelineSucceedsRequest,
    ) -> Result<MergeRequest> {
        let detail =
            merge_requests::cancel_auto_merge(&self.backend, &access, request.merge_request_iid).await?;
        Ok(self.merge_request(detail, &access))
    }

    async fn rebase_merge_request(
        &self,
        access: ProjectAccess,
        request: RebaseMergeRequestRequest,
    ) -> Result<MergeRequestRebase> {
        let failure = merge_requests::rebase(&self.backend, &access, request.merge_request_iid).await?;
        Ok(MergeRequestRebase {
            // The rebase finishes within the request.
            rebase_in_progress: false,
            merge_error: failure.map(str::to_owned),
        })
    }
}
