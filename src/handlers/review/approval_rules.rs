//! Approval rules.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::review::approvals::rules::{self, ApprovalRuleUpdate, ApproverSelection, NewApprovalRule};

use crate::api::routes::ApprovalRulesApi;
use crate::app::App;
use crate::views::enums::Convert;
use crate::views::review::approval_rules::approval_rule;
use contract::{
    ApprovalRule, CreateApprovalRuleRequest, DeleteApprovalRuleRequest, GetApprovalRuleRequest,
    UpdateApprovalRuleRequest,
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
}
