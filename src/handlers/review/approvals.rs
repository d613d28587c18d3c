//! Approvals of merge requests, and the approval settings of projects and groups.

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::review::approvals::configuration::{self, ApprovalPermissionsUpdate, ApprovalSettingsUpdate};
use domain::review::approvals::{reviews, settings};

use crate::api::routes::ApprovalsApi;
use crate::app::App;
use crate::views;
use crate::views::review::approvals::{approval_permissions, approval_settings, approval_state, approvals};
use contract::{
    ApprovalSettings, ApproveMergeRequestRequest, GetMergeRequestApprovalStateRequest,
    GetMergeRequestApprovalsRequest, MergeRequestApprovalSetting, MergeRequestApprovalSettingUpdate,
    MergeRequestApprovalState, MergeRequestApprovals, Message, ResetMergeRequestApprovalsRequest,
    SetMergeRequestApprovalsRequiredRequest, UnapproveMergeRequestRequest, UpdateApprovalSettingsRequest,
    UpdateGroupMergeRequestApprovalSettingRequest, UpdateMergeRequestApprovalSettingRequest,
};

impl ApprovalsApi for App {
    async fn get_approval_settings(&self, access: ProjectAccess) -> Result<ApprovalSettings> {
        let settings = settings::of_project(&self.backend, &access).await?;
        Ok(approval_settings(&access.project, settings))
    }

    async fn update_approval_settings(
        &self,
        access: ProjectAccess,
        request: UpdateApprovalSettingsRequest,
    ) -> Result<ApprovalSettings> {
        let body = request.body;
        let inverted = |value: Option<bool>| value.map(|value| !value);
        let update = ApprovalSettingsUpdate {
            approvals_before_merge: body.approvals_before_merge,
            permissions: ApprovalPermissionsUpdate {
                author_approval: body.merge_requests_author_approval,
                committer_approval: inverted(body.merge_requests_disable_committers_approval),
                rule_overrides: inverted(body.disable_overriding_approvers_per_merge_request),
                retention: inverted(body.reset_approvals_on_push),
            },
        };
        let access = configuration::update(&self.backend, access, update).await?;
        self.get_approval_settings(access).await
    }

    async fn get_merge_request_approval_setting(
        &self,
        access: ProjectAccess,
    ) -> Result<MergeRequestApprovalSetting> {
        let settings = settings::of_project(&self.backend, &access).await?;
        Ok(approval_permissions(settings))
    }

    async fn update_merge_request_approval_setting(
        &self,
        access: ProjectAccess,
        request: UpdateMergeRequestApprovalSettingRequest,
    ) -> Result<MergeRequestApprovalSetting> {
        let update = ApprovalSettingsUpdate {
            approvals_before_merge: None,
            permissions: permissions(request.body).check_not_empty()?,
        };
        let access = configuration::update(&self.backend, access, update).await?;
        self.get_merge_request_approval_setting(access).await
    }

    async fn get_group_merge_request_approval_setting(
        &self,
        access: GroupAccess,
    ) -> Result<MergeRequestApprovalSetting> {
        let settings = settings::of_group(&self.backend, &access).await?;
        Ok(approval_permissions(settings))
    }

    async fn update_group_merge_request_approval_setting(
        &self,
        access: GroupAccess,
        request: UpdateGroupMergeRequestApprovalSettingRequest,
    ) -> Result<MergeRequestApprovalSetting> {
        let update = permissions(request.body);
        let access = configuration::update_group(&self.backend, access, update).await?;
        self.get_group_merge_request_approval_setting(access).await
    }

    async fn get_merge_request_approvals(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestApprovalsRequest,
    ) -> Result<MergeRequestApprovals> {
        let detail = reviews::get(&self.backend, &access, request.merge_request_iid).await?;
        Ok(approvals(&self.backend.instance, detail))
    }

    async fn set_merge_request_approvals_required(
        &self,
        access: ProjectAccess,
        request: SetMergeRequestApprovalsRequiredRequest,
    ) -> Result<MergeRequestApprovals> {
        let (iid, number) = (request.merge_request_iid, request.body.approvals_required);
        let detail = reviews::require(&self.backend, &access, iid, number).await?;
        Ok(approvals(&self.backend.instance, detail))
    }

    async fn get_merge_request_approval_state(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestApprovalStateRequest,
    ) -> Result<MergeRequestApprovalState> {
        let detail = reviews::get_state(&self.backend, &access, request.merge_request_iid).await?;
        Ok(approval_state(&self.backend.instance, detail))
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

    async fn reset_merge_request_approvals(
        &self,
        access: ProjectAccess,
        request: ResetMergeRequestApprovalsRequest,
    ) -> Result<Message> {
        reviews::reset(&self.backend, &access, request.merge_request_iid).await?;
        Ok(views::accepted())
    }
}

fn permissions(body: MergeRequestApprovalSettingUpdate) -> ApprovalPermissionsUpdate {
    ApprovalPermissionsUpdate {
        author_approval: body.allow_author_approval,
        committer_approval: body.allow_committer_approval,
        rule_overrides: body.allow_overrides_to_approver_list_per_merge_request,
        retention: body.retain_approvals_on_push,
    }
}
