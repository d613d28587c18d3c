//! Approvals of merge requests, and the settings of projects about approvals.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::review::approvals::configuration::{self, ApprovalSettingsUpdate};
use domain::review::approvals::reviews;

use crate::api::routes::ApprovalsApi;
use crate::app::App;
use crate::views::review::approvals::{approval_settings, approvals};
use contract::{
    ApprovalSettings, ApproveMergeRequestRequest, GetMergeRequestApprovalsRequest, MergeRequestApprovals,
    UnapproveMergeRequestRequest, UpdateApprovalSettingsRequest,
};

impl ApprovalsApi for App {
    async fn get_approval_settings(&self, access: ProjectAccess) -> Result<ApprovalSettings> {
        Ok(approval_settings(&access.project))
    }

    async fn update_approval_settings(
        &self,
        access: ProjectAccess,
        request: UpdateApprovalSettingsRequest,
    ) -> Result<ApprovalSettings> {
        let body = request.body;
        let update = ApprovalSettingsUpdate {
            approvals_before_merge: body.approvals_before_merge,
            reset_approvals_on_push: body.reset_approvals_on_push,
            merge_requests_author_approval: body.merge_requests_author_approval,
            merge_requests_disable_committers_approval: body.merge_requests_disable_committers_approval,
        };
        let project = configuration::update(&self.backend, &access, update).await?;
        Ok(approval_settings(&project))
    }

    async fn get_merge_request_approvals(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestApprovalsRequest,
    ) -> Result<MergeRequestApprovals> {
        let detail = reviews::get(&self.backend, &access, request.merge_request_iid).await?;
        Ok(approvals(&self.backend.instance, detail))
    }

    async fn approve_merge_request(
        &self,
        access: ProjectAccess,
        request: ApproveMergeRequestRequest,
    ) -> Result<MergeRequestApprovals> {
        let (iid, sha) = (request.merge_request_iid, request.body.sha.as_deref());
        let detail = reviews::approve(&self.backend, &access, iid, sha).await?;
        Ok(approvals(&self.backend.instance, detail))
    }

    async fn unapprove_merge_request(
        &self,
        access: ProjectAccess,
        request: UnapproveMergeRequestRequest,
    ) -> Result<MergeRequestApprovals> {
        let detail = reviews::unapprove(&self.backend, &access, request.merge_request_iid).await?;
        Ok(approvals(&self.backend.instance, detail))
    }
}
