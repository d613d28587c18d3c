//! Commit statuses reported by external systems.

use domain::delivery::commit_statuses::{self, CommitStatusFilter, StatusReport};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::CommitStatusesApi;
use crate::app::App;
use crate::views::delivery::pipeline::{commit_status, reported};
use contract::{CommitStatus, CreateCommitStatusRequest, ListCommitStatusesRequest};

impl CommitStatusesApi for App {
    async fn list_commit_statuses(
        &self,
        access: ProjectAccess,
        request: ListCommitStatusesRequest,
        page: PageRequest,
    ) -> Result<Page<CommitStatus>> {
        let filter = CommitStatusFilter {
            ref_name: request.r#ref,
            stage: request.stage,
            name: request.name,
            pipeline_id: request.pipeline_id,
            all: request.all,
        };
        let (backend, page) = (&self.backend, &page);
        let page = commit_statuses::list(backend, &access, &request.sha, filter, page).await?;
        Ok(page.map(|row| commit_status(&backend.instance.base_url, row)))
    }

    async fn create_commit_status(
        &self,
        access: ProjectAccess,
        request: CreateCommitStatusRequest,
    ) -> Result<CommitStatus> {
        let body = request.body;
        let report = StatusReport {
            status: reported(body.state),
            ref_name: body.r#ref,
            name: body.name.or(body.context),
            target_url: body.target_url,
            description: body.description,
            coverage: body.coverage,
            pipeline_id: body.pipeline_id,
        };
        let created = commit_statuses::report(&self.backend, &access, &request.sha, report).await?;
        Ok(commit_status(&self.backend.instance.base_url, created))
    }
}
