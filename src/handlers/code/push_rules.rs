//! Push rules of projects and groups.

use domain::code::push_rules::{self, PushRuleUpdate};
use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::kernel::error::Result;

use crate::api::routes::PushRulesApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::code::push_rule::{group_push_rule, project_push_rule};
use contract::{
    CreateGroupPushRuleRequest, CreatePushRuleRequest, DeleteGroupPushRuleRequest, DeletePushRuleRequest,
    GroupPushRule, ProjectPushRule, PushRuleInput, UpdateGroupPushRuleRequest, UpdatePushRuleRequest,
};

impl PushRulesApi for App {
    async fn get_push_rule(&self, access: ProjectAccess) -> Result<Option<ProjectPushRule>> {
        let found = push_rules::find(&self.backend, &access.into()).await?;
        Ok(found.map(project_push_rule))
    }

    async fn create_push_rule(
        &self,
        access: ProjectAccess,
        request: CreatePushRuleRequest,
    ) -> Result<ProjectPushRule> {
        let created = push_rules::create(&self.backend, &access.into(), attributes(request.body)).await?;
        Ok(project_push_rule(created))
    }

    async fn update_push_rule(
        &self,
        access: ProjectAccess,
        request: UpdatePushRuleRequest,
    ) -> Result<ProjectPushRule> {
        let changed = push_rules::update(&self.backend, &access.into(), attributes(request.body)).await?;
        Ok(project_push_rule(changed))
    }

    async fn delete_push_rule(&self, access: ProjectAccess, request: DeletePushRuleRequest) -> Result<()> {
        let since = request.if_unmodified_since.as_deref();
        push_rules::delete(&self.backend, &access.into(), since).await
    }

    async fn get_group_push_rule(&self, access: GroupAccess) -> Result<GroupPushRule> {
        let found = push_rules::get(&self.backend, &access.into()).await?;
        Ok(group_push_rule(found))
    }

    async fn create_group_push_rule(
        &self,
        access: GroupAccess,
        request: CreateGroupPushRuleRequest,
    ) -> Result<GroupPushRule> {
        let created = push_rules::create(&self.backend, &access.into(), attributes(request.body)).await?;
        Ok(group_push_rule(created))
    }

    async fn update_group_push_rule(
        &self,
        access: GroupAccess,
        request: UpdateGroupPushRuleRequest,
    ) -> Result<GroupPushRule> {
        let changed = push_rules::update(&self.backend, &access.into(), attributes(request.body)).await?;
        Ok(group_push_rule(changed))
    }

    async fn delete_group_push_rule(
        &self,
        access: GroupAccess,
        request: DeleteGroupPushRuleRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since.as_deref();
        push_rules::delete(&self.backend, &access.into(), since).await
    }
}

fn attributes(body: PushRuleInput) -> PushRuleUpdate {
    PushRuleUpdate {
        deny_delete_tag: body.deny_delete_tag,
        member_check: body.member_check,
        prevent_secrets: body.prevent_secrets,
        commit_message_regex: body.commit_message_regex.into_patch(),
        commit_message_negative_regex: body.commit_message_negative_regex.into_patch(),
        branch_name_regex: body.branch_name_regex.into_patch(),
        author_email_regex: body.author_email_regex.into_patch(),
        file_name_regex: body.file_name_regex.into_patch(),
        max_file_size: body.max_file_size,
        commit_committer_check: body.commit_committer_check,
        commit_committer_name_check: body.commit_committer_name_check,
        reject_unsigned_commits: body.reject_unsigned_commits,
        reject_non_dco_commits: body.reject_non_dco_commits,
    }
}
