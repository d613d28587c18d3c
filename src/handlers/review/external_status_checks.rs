//! External status checks of projects, and their statuses for merge requests.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::review::status_checks::responses::{self, NewStatusCheckResponse};
use domain::review::status_checks::settings::{self, StatusCheckSettings};

use crate::api::routes::ExternalStatusChecksApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views;
use crate::views::enums::Convert;
use crate::views::review::external_status_checks::{applied_check, response, status_check};
use contract::{
    CreateExternalStatusCheckRequest, CreateStatusCheckResponseRequest, DeleteExternalStatusCheckRequest,
    ExternalStatusCheck, ListMergeRequestStatusChecksRequest, MergeRequestStatusCheck, Message,
    RetryStatusCheckRequest, StatusCheckResponse, StatusCheckStatus, UpdateExternalStatusCheckRequest,
};

impl ExternalStatusChecksApi for App {
    async fn list_external_status_checks(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<ExternalStatusCheck>> {
        let page = settings::list(&self.backend, &access, &page).await?;
        Ok(page.map(status_check))
    }

    async fn create_external_status_check(
        &self,
        access: ProjectAccess,
        request: CreateExternalStatusCheckRequest,
    ) -> Result<ExternalStatusCheck> {
        let body = request.body;
        let new = StatusCheckSettings {
            name: Some(body.name),
            external_url: Some(body.external_url),
            shared_secret: body.shared_secret.into_patch().map(Into::into),
            protected_branch_ids: body.protected_branch_ids,
        };
        Ok(status_check(settings::create(&self.backend, &access, new).await?))
    }

    async fn update_external_status_check(
        &self,
        access: ProjectAccess,
        request: UpdateExternalStatusCheckRequest,
    ) -> Result<ExternalStatusCheck> {
        let (id, body) = (request.check_id, request.body);
        let update = StatusCheckSettings {
            name: body.name,
            external_url: body.external_url,
            shared_secret: body.shared_secret.into_patch().map(Into::into),
            protected_branch_ids: body.protected_branch_ids,
        };
        Ok(status_check(
            settings::update(&self.backend, &access, id, update).await?,
        ))
    }

    async fn delete_external_status_check(
        &self,
        access: ProjectAccess,
        request: DeleteExternalStatusCheckRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since.as_deref();
        settings::delete(&self.backend, &access, request.check_id, since).await
    }

    async fn list_merge_request_status_checks(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestStatusChecksRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequestStatusCheck>> {
        let page = responses::list(&self.backend, &access, request.merge_request_iid, &page).await?;
        Ok(page.map(applied_check))
    }

    async fn create_status_check_response(
        &self,
        access: ProjectAccess,
        request: CreateStatusCheckResponseRequest,
    ) -> Result<StatusCheckResponse> {
        let (iid, body) = (request.merge_request_iid, request.body);
        let new = NewStatusCheckResponse {
            check_id: body.external_status_check_id,
            sha: body.sha,
            status: body.status.unwrap_or(StatusCheckStatus::Passed).convert(),
        };
        Ok(response(
            responses::create(&self.backend, &access, iid, new).await?,
        ))
    }

    async fn retry_status_check(
        &self,
        access: ProjectAccess,
        request: RetryStatusCheckRequest,
    ) -> Result<Message> {
        let (iid, id) = (request.merge_request_iid, request.check_id);
        responses::retry(&self.backend, &access, iid, id).await?;
        Ok(views::accepted())
    }
}
