//! Events of the labels, the state and the milestone of issues and merge requests.

use std::sync::Arc;

use domain::planning::issuables::resource_events::{ResourceEvent, ResourceEventAction};
use domain::planning::labels::colors;
use storage::entities::labels::LabelSummary;
use storage::entities::resource_events::Model;

use crate::views::accounts::users::reference;
use crate::views::html;
use crate::views::planning::milestone::milestone;
use contract::{
    ResourceEventLabel, ResourceEventState, ResourceEventTarget, ResourceLabelEvent, ResourceMilestoneEvent,
    ResourceStateEvent,
};

/// Returns an event of a label.
#[must_use]
pub fn label_event(base: &str, detail: ResourceEvent) -> ResourceLabelEvent {
    let (resource_type, resource_id) = target(&detail.event);
    ResourceLabelEvent {
        id: detail.event.id,
        user: detail.user.map(|user| reference(base, user)),
        created_at: detail.event.created_at.into(),
        resource_type,
        resource_id,
        label: detail.label.map(label),
        action: action(detail.event.action),
    }
}

/// Returns an event of the state.
#[must_use]
pub fn state_event(base: &str, detail: ResourceEvent) -> ResourceStateEvent {
    let (resource_type, resource_id) = target(&detail.event);
    ResourceStateEvent {
        id: detail.event.id,
        user: detail.user.map(|user| reference(base, user)),
        created_at: detail.event.created_at.into(),
        resource_type,
        resource_id,
        state: match detail.event.action {
            ResourceEventAction::Merged => ResourceEventState::Merged,
            ResourceEventAction::Reopened => ResourceEventState::Reopened,
            ResourceEventAction::Closed | ResourceEventAction::Add | ResourceEventAction::Remove => {
                ResourceEventState::Closed
            }
        },
    }
}

/// Returns an event of the milestone.
#[must_use]
pub fn milestone_event(base: &str, detail: ResourceEvent) -> ResourceMilestoneEvent {
    let (resource_type, resource_id) = target(&detail.event);
    ResourceMilestoneEvent {
        id: detail.event.id,
        user: detail.user.map(|user| reference(base, user)),
        created_at: detail.event.created_at.into(),
        resource_type,
        resource_id,
        milestone: detail
            .milestone
            .map(Arc::unwrap_or_clone)
            .map(|detail| milestone(base, detail)),
        action: action(detail.event.action),
    }
}

fn target(event: &Model) -> (ResourceEventTarget, i64) {
    match (event.issue_id, event.merge_request_id) {
        (None, Some(id)) => (ResourceEventTarget::MergeRequest, id),
        // The database requires one of them.
        (id, _) => (ResourceEventTarget::Issue, id.unwrap_or_default()),
    }
}

fn action(action: ResourceEventAction) -> contract::ResourceEventAction {
    match action {
        ResourceEventAction::Remove => contract::ResourceEventAction::Remove,
        _ => contract::ResourceEventAction::Add,
    }
}

fn label(label: LabelSummary) -> ResourceEventLabel {
    ResourceEventLabel {
        id: label.id,
        text_color: colors::text_color(&label.color).to_owned(),
        name: label.title,
        color: label.color,
        description_html: html::escape(label.description.as_deref().unwrap_or_default()),
        description: label.description.as_deref().map(str::to_owned),
    }
}
