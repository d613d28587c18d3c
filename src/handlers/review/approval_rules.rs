//! Approval rules of projects and of merge requests.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::review::approvals::rules::own_rules::{self, NewOwnRule, OwnRuleUpdate};
use domain::review::approvals::rules::{self, ApprovalRuleUpdate, ApproverSelection, NewApprovalRule};

use crate::api::routes::ApprovalRulesApi;
use crate::app::App;
use crate::views::enums::Convert;
use crate::views::review::approval_rules::{approval_rule, own_rule};
use contract::{
    ApprovalRule, CreateApprovalRuleRequest, CreateMergeRequestApprovalRuleRequest,
    DeleteApprovalRuleRequest, DeleteMergeRequestApprovalRuleRequest, GetApprovalRuleRequest,
    GetMergeRequestApprovalRuleRequest, ListMergeRequestApprovalRulesRequest, MergeRequestApprovalRule,
    UpdateApprovalRuleRequest, UpdateMergeRequestApprovalRuleRequest,
};

impl ApprovalRulesApi for App {
    async fn list_approval_rules(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<ApprovalRule>> {
        let page = rules::list(&self.backend, &access, &page).await?;
        Ok(page.map(|detail| approval_rule(&self.backend.instance, detail)))
    }

    async fn create_approval_rule(
        &self,
        access: ProjectAccess,
        request: CreateApprovalRuleRequest,
    ) -> Result<ApprovalRule> {
        let body = request.body;
        let new = NewApprovalRule {
            name: body.name,
            rule_type: body.rule_type.map(Convert::convert),
            approvals_required: body.approvals_required,
            applies_to_all_protected_branches: body.applies_to_all_protected_branches,
            selection: ApproverSelection {
                user_ids: body.user_ids,
                usernames: body.usernames,
                group_ids: body.group_ids,
                protected_branch_ids: body.protected_branch_ids,
            },
        };
        let created = rules::create(&self.backend, &access, new).await?;
        Ok(approval_rule(&self.backend.instance, created))
    }

    async fn get_approval_rule(
        &self,
        access: ProjectAccess,
        request: GetApprovalRuleRequest,
    ) -> Result<ApprovalRule> {
        let found = rules::get(&self.backend, &access, request.approval_rule_id).await?;
        Ok(approval_rule(&self.backend.instance, found))
    }

    async fn update_approval_rule(
        &self,
        access: ProjectAccess,
        request: UpdateApprovalRuleRequest,
    ) -> Result<ApprovalRule> {
        let (id, body) = (request.approval_rule_id, request.body);
        let update = ApprovalRuleUpdate {
            name: body.name,
            approvals_required: body.approvals_required,
            applies_to_all_protected_branches: body.applies_to_all_protected_branches,
            remove_hidden_groups: body.remove_hidden_groups,
            selection: ApproverSelection {
                user_ids: body.user_ids,
                usernames: body.usernames,
                group_ids: body.group_ids,
                protected_branch_ids: body.protected_branch_ids,
            },
        };
        let changed = rules::update(&self.backend, &access, id, update).await?;
        Ok(approval_rule(&self.backend.instance, changed))
    }

    async fn delete_approval_rule(
        &self,
        access: ProjectAccess,
        request: DeleteApprovalRuleRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since.as_deref();
        rules::delete(&self.backend, &access, request.approval_rule_id, since).await
    }

    async fn list_merge_request_approval_rules(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestApprovalRulesRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequestApprovalRule>> {
        let page = own_rules::list(&self.backend, &access, request.merge_request_iid, &page).await?;
        Ok(page.map(|own| own_rule(&self.backend.instance, own)))
    }

    async fn create_merge_request_approval_rule(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestApprovalRuleRequest,
    ) -> Result<MergeRequestApprovalRule> {
        let (iid, body) = (request.merge_request_iid, request.body);
        let new = NewOwnRule {
            name: body.name,
            approvals_required: body.approvals_required,
            source_rule_id: body.approval_project_rule_id,
            selection: ApproverSelection {
                user_ids: body.user_ids,
                usernames: body.usernames,
                group_ids: body.group_ids,
                protected_branch_ids: None,
            },
        };
        let created = own_rules::create(&self.backend, &access, iid, new).await?;
        Ok(own_rule(&self.backend.instance, created))
    }

    async fn get_merge_request_approval_rule(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestApprovalRuleRequest,
    ) -> Result<MergeRequestApprovalRule> {
        let (iid, id) = (request.merge_request_iid, request.approval_rule_id);
        let found = own_rules::get(&self.backend, &access, iid, id).await?;
        Ok(own_rule(&self.backend.instance, found))
    }

    async fn update_merge_request_approval_rule(
        &self,
        access: ProjectAccess,
        request: UpdateMergeRequestApprovalRuleRequest,
    ) -> Result<MergeRequestApprovalRule> {
        let ids = (request.merge_request_iid, request.approval_rule_id);
        let body = request.body;
        let update = OwnRuleUpdate {
            name: body.name,
            approvals_required: body.approvals_required,
            remove_hidden_groups: body.remove_hidden_groups,
            selection: ApproverSelection {
                user_ids: body.user_ids,
                usernames: body.usernames,
                group_ids: body.group_ids,
                protected_branch_ids: None,
            },
        };
        let changed = own_rules::update(&self.backend, &access, ids, update).await?;
        Ok(own_rule(&self.backend.instance, changed))
    }

    async fn delete_merge_request_approval_rule(
        &self,
        access: ProjectAccess,
        request: DeleteMergeRequestApprovalRuleRequest,
    ) -> Result<()> {
        let ids = (request.merge_request_iid, request.approval_rule_id);
        let since = request.if_unmodified_since.as_deref();
        own_rules::delete(&self.backend, &access, ids, since).await
    }
}
