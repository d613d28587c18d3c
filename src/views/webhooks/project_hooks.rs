//! Webhooks and the log of their deliveries.

use storage::entities::hook_deliveries::{self, DeliveryState};
use storage::entities::project_hooks;

use contract::map::Map;
use contract::{HookAlertStatus, HookCustomHeader, HookDelivery, HookUrlVariable, ProjectHook};
use domain::webhooks::values::ValueKind;

use crate::views::enums::Convert;

/// Returns a webhook without its secrets.
#[must_use]
pub fn hook(hook: project_hooks::Model) -> ProjectHook {
    let custom_headers = ValueKind::CustomHeaders.keys(&hook).into_iter();
    let url_variables = ValueKind::UrlVariables.keys(&hook).into_iter();
    ProjectHook {
        custom_headers: custom_headers.map(|key| HookCustomHeader { key }).collect(),
        url_variables: url_variables.map(|key| HookUrlVariable { key }).collect(),
        token_present: hook.token_encrypted.is_some(),
        signing_token_present: hook.signing_token_encrypted.is_some(),
        id: hook.id,
        url: hook.url,
        name: hook.name,
        description: hook.description,
        project_id: hook.project_id,
        custom_webhook_template: hook.custom_webhook_template,
        push_events: hook.push_events,
        push_events_branch_filter: hook.push_events_branch_filter,
        branch_filter_strategy: hook.branch_filter_strategy.convert(),
        tag_push_events: hook.tag_push_events,
        issues_events: hook.issues_events,
        confidential_issues_events: hook.confidential_issues_events,
        merge_requests_events: hook.merge_requests_events,
        note_events: hook.note_events,
        confidential_note_events: hook.confidential_note_events,
        job_events: hook.job_events,
        pipeline_events: hook.pipeline_events,
        wiki_page_events: hook.wiki_page_events,
        releases_events: hook.releases_events,
        // Only instance webhooks have these events, and none exist.
        repository_update_events: false,
        enable_ssl_verification: hook.enable_ssl_verification,
        alert_status: match hook.disabled_at {
            Some(_) => HookAlertStatus::Disabled,
            None => HookAlertStatus::Executable,
        },
        failing_since: hook.failing_since.map(Into::into),
        disabled_at: hook.disabled_at.map(Into::into),
        created_at: hook.created_at.into(),
    }
}

/// Returns a delivery; `with_bodies` adds the request body.
#[must_use]
pub fn delivery(row: hook_deliveries::Model, with_bodies: bool) -> HookDelivery {
    let sent = row.request_body.as_deref();
    let request_data = sent
        .filter(|_| with_bodies)
        .and_then(|body| serde_json::from_str(body).ok());
    let headers = row.response_headers.as_deref().unwrap_or("{}");
    let sent_headers = row.request_headers.as_deref().unwrap_or("{}");
    let sent_headers: Map<String> = serde_json::from_str(sent_headers).unwrap_or_default();
    let request_headers = [
        ("Content-Type".to_owned(), "application/json".to_owned()),
        ("X-Service-Event".to_owned(), row.kind.title().to_owned()),
        ("X-Service-Event-UUID".to_owned(), row.uuid.clone()),
    ];
    HookDelivery {
        request_headers: request_headers.into_iter().chain(sent_headers).collect(),
        request_data,
        id: row.id,
        uuid: row.uuid,
        trigger: row.kind.trigger().to_owned(),
        url: row.url,
        state: row.state.convert(),
        attempts: row.attempts.into(),
        response_status: row.response_status.map(|status| status.to_string()),
        response_headers: serde_json::from_str(headers).unwrap_or_default(),
        response_body: row.response_body.unwrap_or_default(),
        error: row.error,
        execution_duration: row.duration_ms.map(|time| f64::from(time) / 1000.0),
        created_at: row.created_at.into(),
        finished_at: row.finished_at.map(Into::into),
        next_attempt_at: (row.state == DeliveryState::Pending).then(|| row.next_attempt_at.into()),
    }
}
