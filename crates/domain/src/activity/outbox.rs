//! Webhook outbox: deliveries of an event, inserted in the transaction of the event.

use sea_orm::{ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::entities::hook_deliveries::{self, DeliveryState};
use storage::entities::project_hooks::{self, HookEvent, Subscriber};
use storage::entities::{events, now};
use storage::jobs;

use crate::activity::branch_filters::accepts_branch;
use crate::activity::jobs::deliver_webhook::DeliverWebhook;
use crate::kernel::error::{Error, Result};

/// Maximum number of deliveries in one statement.
const BATCH_SIZE: usize = 500;

/// Selects the webhooks that receive an event.
#[derive(Debug, Clone)]
pub struct WebhookTarget {
    /// The kind of event that webhooks subscribe to.
    pub kind: HookEvent,
    /// The branch, for webhooks that filter branches.
    pub branch: Option<String>,
}

/// Inserts a delivery for every webhook that subscribes to an event. Disabled webhooks get deliveries as
/// well, and send them once they are enabled again.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn enqueue(
    transaction: &DatabaseTransaction,
    event: &events::Model,
    target: &WebhookTarget,
) -> Result<()> {
    match event.project_id {
        Some(project_id) => enqueue_all(transaction, project_id, &[event.id], target).await,
        None => Ok(()),
    }
}

/// Like [`enqueue`], for the IDs of events of one project.
pub(super) async fn enqueue_all(
    transaction: &DatabaseTransaction,
    project_id: i64,
    event_ids: &[i64],
    target: &WebhookTarget,
) -> Result<()> {
    let mut hooks = project_hooks::subscribed_to(transaction, project_id, target.kind).await?;
    hooks.retain(|hook| {
        accepts_branch(
            hook.branch_filter_strategy,
            hook.push_events_branch_filter.as_deref(),
            target.branch.as_deref(),
        )
    });
    if hooks.is_empty() {
        return Ok(());
    }
    for event_ids in event_ids.chunks((BATCH_SIZE / hooks.len()).max(1)) {
        let mut rows = Vec::with_capacity(event_ids.len() * hooks.len());
        for event_id in event_ids {
            rows.extend(hooks.iter().map(|hook| delivery(hook, *event_id, target.kind)));
        }
        hook_deliveries::Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
    for hook in hooks.iter().filter(|hook| hook.disabled_at.is_none()) {
        let job = DeliverWebhook { hook_id: hook.id };
        jobs::enqueue(transaction, &job).await.map_err(Error::internal)?;
    }
    Ok(())
}

fn delivery(hook: &Subscriber, event_id: i64, kind: HookEvent) -> hook_deliveries::ActiveModel {
    let at = now();
    hook_deliveries::ActiveModel {
        hook_id: Set(hook.id),
        event_id: Set(Some(event_id)),
        uuid: Set(uuid()),
        kind: Set(kind),
        url: Set(hook.url.clone()),
        state: Set(DeliveryState::Pending),
        next_attempt_at: Set(at),
        created_at: Set(at),
        ..Default::default()
    }
}

/// Returns a unique ID for a delivery.
pub(crate) fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}
