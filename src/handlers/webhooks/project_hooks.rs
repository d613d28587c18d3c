//! Webhooks of a project.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::webhooks::value_changes::{self, ValueChange};
use domain::webhooks::values::{KeyedValue, ValueKind};
use domain::webhooks::{self, WebhookSettings, log, test_delivery};

use crate::api::routes::ProjectHooksApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::enums::Convert;
use crate::views::webhooks::project_hooks as view;
use contract::{
    CreateProjectHookRequest, DeleteProjectHookCustomHeaderRequest, DeleteProjectHookRequest,
    DeleteProjectHookUrlVariableRequest, GetProjectHookDeliveryRequest, GetProjectHookRequest,
    HookCustomHeaderCreate, HookDelivery, HookSettings, HookTrigger, HookUrlVariableCreate,
    ListProjectHookDeliveriesRequest, ProjectHook, ResendProjectHookDeliveryRequest,
    SetProjectHookCustomHeaderRequest, SetProjectHookUrlVariableRequest, TestProjectHookRequest,
    UpdateProjectHookRequest,
};

/// Returns the settings in a body.
fn hook_settings(settings: HookSettings) -> WebhookSettings {
    WebhookSettings {
        name: settings.name.into_patch(),
        description: settings.description.into_patch(),
        url: settings.url,
        token: settings.token.into_patch().map(Into::into),
        signing_token: settings.signing_token.into_patch().map(Into::into),
        custom_headers: settings
            .custom_headers
            .map(|headers| headers.into_iter().map(custom_header).collect()),
        url_variables: settings
            .url_variables
            .map(|variables| variables.into_iter().map(url_variable).collect()),
        custom_webhook_template: settings.custom_webhook_template.into_patch(),
        push_events: settings.push_events,
        push_events_branch_filter: settings.push_events_branch_filter.into_patch(),
        branch_filter_strategy: settings.branch_filter_strategy.map(Convert::convert),
        tag_push_events: settings.tag_push_events,
        issues_events: settings.issues_events,
        confidential_issues_events: settings.confidential_issues_events,
        merge_requests_events: settings.merge_requests_events,
        note_events: settings.note_events,
        confidential_note_events: settings.confidential_note_events,
        job_events: settings.job_events,
        pipeline_events: settings.pipeline_events,
        wiki_page_events: settings.wiki_page_events,
        releases_events: settings.releases_events,
        enable_ssl_verification: settings.enable_ssl_verification,
    }
}

fn custom_header(sent: HookCustomHeaderCreate) -> KeyedValue {
    KeyedValue {
        key: sent.key,
        value: sent.value.into(),
    }
}

fn url_variable(sent: HookUrlVariableCreate) -> KeyedValue {
    KeyedValue {
        key: sent.key,
        value: sent.value.into(),
    }
}

impl ProjectHooksApi for App {
    async fn list_project_hooks(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<ProjectHook>> {
        Ok(webhooks::list(&self.backend, &access, &page)
            .await?
            .map(view::hook))
    }

    async fn create_project_hook(
        &self,
        access: ProjectAccess,
        request: CreateProjectHookRequest,
    ) -> Result<ProjectHook> {
        let hook =
            webhooks::create(&self.backend, &access, hook_settings(request.body.hook_settings)).await?;
        Ok(view::hook(hook))
    }

    async fn get_project_hook(
        &self,
        access: ProjectAccess,
        request: GetProjectHookRequest,
    ) -> Result<ProjectHook> {
        let hook = webhooks::get(&self.backend, &access, request.hook_id).await?;
        Ok(view::hook(hook))
    }

    async fn update_project_hook(
        &self,
        access: ProjectAccess,
        request: UpdateProjectHookRequest,
    ) -> Result<ProjectHook> {
        let hook = webhooks::update(
            &self.backend,
            &access,
            request.hook_id,
            hook_settings(request.body.hook_settings),
        )
        .await?;
        Ok(view::hook(hook))
    }

    async fn delete_project_hook(
        &self,
        access: ProjectAccess,
        request: DeleteProjectHookRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since;
        webhooks::delete(&self.backend, &access, request.hook_id, since.as_deref()).await
    }

    async fn set_project_hook_custom_header(
        &self,
        access: ProjectAccess,
        request: SetProjectHookCustomHeaderRequest,
    ) -> Result<()> {
        let change = ValueChange::Set(KeyedValue {
            key: request.key,
            value: request.body.value.into(),
        });
        let (id, kind) = (request.hook_id, ValueKind::CustomHeaders);
        value_changes::change(&self.backend, &access, id, kind, change).await
    }

    async fn delete_project_hook_custom_header(
        &self,
        access: ProjectAccess,
        request: DeleteProjectHookCustomHeaderRequest,
    ) -> Result<()> {
        let change = ValueChange::Remove(request.key);
        let (id, kind) = (request.hook_id, ValueKind::CustomHeaders);
        value_changes::change(&self.backend, &access, id, kind, change).await
    }

    async fn set_project_hook_url_variable(
        &self,
        access: ProjectAccess,
        request: SetProjectHookUrlVariableRequest,
    ) -> Result<()> {
        let change = ValueChange::Set(KeyedValue {
            key: request.key,
            value: request.body.value.into(),
        });
        let (id, kind) = (request.hook_id, ValueKind::UrlVariables);
        value_changes::change(&self.backend, &access, id, kind, change).await
    }

    async fn delete_project_hook_url_variable(
        &self,
        access: ProjectAccess,
        request: DeleteProjectHookUrlVariableRequest,
    ) -> Result<()> {
        let change = ValueChange::Remove(request.key);
        let (id, kind) = (request.hook_id, ValueKind::UrlVariables);
        value_changes::change(&self.backend, &access, id, kind, change).await
    }

    async fn test_project_hook(
        &self,
        access: ProjectAccess,
        request: TestProjectHookRequest,
    ) -> Result<HookDelivery> {
        let trigger = match request.trigger {
            HookTrigger::PushEvents => test_delivery::TestTrigger::Push,
            HookTrigger::TagPushEvents => test_delivery::TestTrigger::TagPush,
            HookTrigger::IssuesEvents => test_delivery::TestTrigger::Issue { confidential: false },
            HookTrigger::ConfidentialIssuesEvents => test_delivery::TestTrigger::Issue { confidential: true },
            HookTrigger::NoteEvents => test_delivery::TestTrigger::Note { confidential: false },
            HookTrigger::ConfidentialNoteEvents => test_delivery::TestTrigger::Note { confidential: true },
            HookTrigger::MergeRequestsEvents => test_delivery::TestTrigger::MergeRequest,
            HookTrigger::PipelineEvents => test_delivery::TestTrigger::Pipeline,
            HookTrigger::JobEvents => test_delivery::TestTrigger::Job,
            HookTrigger::ReleasesEvents => test_delivery::TestTrigger::Release,
        };
        let delivery = test_delivery::run(&self.backend, &access, request.hook_id, trigger).await?;
        Ok(view::delivery(delivery, true))
    }

    async fn list_project_hook_deliveries(
        &self,
        access: ProjectAccess,
        request: ListProjectHookDeliveriesRequest,
        page: PageRequest,
    ) -> Result<Page<HookDelivery>> {
        let state = request.state.map(Convert::convert);
        let page = log::list(&self.backend, &access, request.hook_id, state, &page).await?;
        Ok(page.map(|delivery| view::delivery(delivery, false)))
    }

    async fn get_project_hook_delivery(
        &self,
        access: ProjectAccess,
        request: GetProjectHookDeliveryRequest,
    ) -> Result<HookDelivery> {
        let delivery = log::get(&self.backend, &access, request.hook_id, request.delivery_id).await?;
        Ok(view::delivery(delivery, true))
    }

    async fn resend_project_hook_delivery(
        &self,
        access: ProjectAccess,
        request: ResendProjectHookDeliveryRequest,
    ) -> Result<HookDelivery> {
        let delivery = log::resend(&self.backend, &access, request.hook_id, request.delivery_id).await?;
        Ok(view::delivery(delivery, true))
    }
}
