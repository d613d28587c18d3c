//! Single delivery attempts: the request, its result and the next state of the delivery.

use std::time::Duration;

use bytes::Bytes;
use sea_orm::{
    ActiveValue::{self, Set},
    EntityTrait,
};
use storage::entities::hook_deliveries::{self, DeliveryState};
use storage::entities::project_hooks::{self, HookEvent};
use storage::entities::{events, now};

use super::body_template;
use super::payloads;
use super::request::{DeliveryRequest, build};
use crate::activity::outbox;
use crate::instance::settings::allows_local_requests;
use crate::integrations::webhooks::{WebhookResponse, WebhookResult};
use crate::kernel::Backend;
use crate::kernel::budgets::{PayloadSlot, SMALL_PAYLOAD_BYTES};
use crate::kernel::error::{Error, Result};

/// Attempts after which a delivery fails if the receiver responds with the status 500. The error may concern
/// this delivery only.
const MAX_ERROR_ATTEMPTS: i32 = 8;
/// Consecutive attempts after which a delivery fails if its payload cannot be built.
pub(super) const MAX_PAYLOAD_ATTEMPTS: i32 = 5;
/// Maximum size of a stored payload, in bytes. Each webhook stores a copy for days.
const MAX_STORED_BYTES: usize = SMALL_PAYLOAD_BYTES;
/// Placeholder for the payload of a test delivery that is not stored.
pub(super) const NO_PAYLOAD: &str = "";
/// Retry delay for a caller if too many others are waiting, in seconds.
const RETRY_AFTER: u64 = 10;
/// Reasons in the log of deliveries.
pub(super) const UNBUILDABLE: &str = "the payload cannot be created";
pub(super) const TOO_LARGE: &str = "the payload is larger than 25 MiB";
const INVALID_TEMPLATE: &str = "the custom template with its values is not a JSON object of at most 25 MiB";

/// Result of an attempt.
pub(super) struct DeliveryAttempt {
    /// Payload for the log of deliveries, unless the stored one does not change.
    payload: ActiveValue<Option<String>>,
    /// Headers of the request for the log of deliveries, as a JSON object.
    request_headers: Option<String>,
    result: Result<WebhookResponse, DeliveryFault>,
    duration: Duration,
}

/// Reason for an attempt without a response.
enum DeliveryFault {
    /// The receiver could not be reached.
    Receiver(&'static str),
    /// No payload can be sent.
    Payload(&'static str),
    /// The receiver may not get the payload any more.
    Withheld(&'static str),
}

/// Next state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    /// The receiver accepted it.
    Delivered,
    /// It is retried later.
    Retry,
    /// It failed permanently.
    Failed,
}

impl DeliveryAttempt {
    /// Decides on the next state; `number` counts this attempt, and `payload_failures` is the result of
    /// [`Self::payload_failures`]. A rejected delivery is not retried. Temporary failures are retried without a limit,
    /// other server errors for a limited number of attempts. A missing payload does not end a delivery that is retried
    /// for long because its receiver is down.
    pub(super) fn outcome(&self, number: i32, payload_failures: i32) -> DeliveryOutcome {
        let until = |count: i32, last: i32| {
            if count < last {
                DeliveryOutcome::Retry
            } else {
                DeliveryOutcome::Failed
            }
        };
        match &self.result {
            Ok(answer) => match answer.status {
                200..=299 => DeliveryOutcome::Delivered,
                408 | 425 | 429 | 502..=504 => DeliveryOutcome::Retry,
                500.. => until(number, MAX_ERROR_ATTEMPTS),
                _ => DeliveryOutcome::Failed,
            },
            Err(DeliveryFault::Receiver(_)) => DeliveryOutcome::Retry,
            Err(DeliveryFault::Payload(_)) => until(payload_failures, MAX_PAYLOAD_ATTEMPTS),
            Err(DeliveryFault::Withheld(_)) => DeliveryOutcome::Failed,
        }
    }

    /// Returns the number of consecutive attempts without a payload, of which `before` precede this attempt.
    pub(super) fn payload_failures(&self, before: i32) -> i32 {
        match self.result {
            Err(DeliveryFault::Payload(_)) => before.saturating_add(1),
            _ => 0,
        }
    }
}

impl DeliveryAttempt {
    pub(super) fn without_payload(reason: &'static str) -> Self {
        Self::without_response(DeliveryFault::Payload(reason))
    }

    pub(super) fn withheld(reason: &'static str) -> Self {
        Self::without_response(DeliveryFault::Withheld(reason))
    }

    fn without_response(fault: DeliveryFault) -> Self {
        Self {
            payload: ActiveValue::NotSet,
            request_headers: None,
            result: Err(fault),
            duration: Duration::ZERO,
        }
    }

    pub(super) fn sent(outcome: WebhookResult) -> Self {
        Self {
            payload: ActiveValue::NotSet,
            request_headers: None,
            result: outcome.answer.map_err(DeliveryFault::Receiver),
            duration: outcome.duration,
        }
    }

    /// Adds the payload for the log of deliveries.
    fn with_payload(self, payload: ActiveValue<Option<String>>) -> Self {
        Self { payload, ..self }
    }

    /// Adds the headers of the request for the log of deliveries.
    fn with_headers(self, request_headers: Option<String>) -> Self {
        Self {
            request_headers,
            ..self
        }
    }

    /// Returns whether a failure counts against the receiver.
    pub(super) fn is_receiver_fault(&self) -> bool {
        !matches!(
            self.result,
            Err(DeliveryFault::Payload(_) | DeliveryFault::Withheld(_))
        )
    }
}

/// Attempts a delivery once, with a slot for its payload. Returns `None` if another node took over.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn attempt(
    backend: &Backend,
    hook: &project_hooks::Model,
    delivery: &mut hook_deliveries::Model,
    slot: PayloadSlot,
) -> Result<Option<DeliveryAttempt>> {
    let stored = delivery.request_body.take();
    let is_stored = stored.is_some();
    let payload = match (stored, delivery.event_id) {
        (Some(payload), _) => payload,
        (None, Some(event_id)) => match build_payload(backend, delivery, event_id).await? {
            BuiltPayload::Ready(payload) => payload,
            BuiltPayload::Failed(attempt) => return Ok(Some(attempt)),
            BuiltPayload::TakenOver => return Ok(None),
        },
        (None, None) => {
            return Ok(Some(DeliveryAttempt::without_payload(
                "the delivery has no payload",
            )));
        }
    };
    // Checked after the payload was built, because it may contain the current state of the resource.
    // A payload that was built while the resource was visible may be sent after the resource is deleted.
    let known = is_confidential(backend, delivery, &payload).await?;
    if known.unwrap_or(!is_stored) {
        let attempt = DeliveryAttempt::withheld("the resource is now confidential");
        return Ok(Some(attempt.with_payload(Set(None))));
    }
    let logged = match is_stored {
        true => ActiveValue::NotSet,
        false => logged_payload(&payload),
    };
    let Some(body) = sent_body(hook, payload) else {
        // The payload is stored, so that the delivery can be sent again with another template.
        return Ok(Some(
            DeliveryAttempt::withheld(INVALID_TEMPLATE).with_payload(logged),
        ));
    };
    let _slot = slot.built(body.len());
    let local = allows_local_requests(backend).await?;
    let attempt = match build(backend, hook, delivery.kind, &delivery.uuid, body, local) {
        Ok(DeliveryRequest {
            request,
            logged_headers,
        }) => {
            let outcome = backend.webhooks.send(request).await;
            DeliveryAttempt::sent(outcome)
                .with_headers(logged_headers)
                .with_payload(logged)
        }
        Err(error) => {
            tracing::error!(%error, hook = hook.id, "failed to decrypt webhook secrets");
            DeliveryAttempt::without_payload("the secrets of the webhook cannot be read")
        }
    };
    Ok(Some(attempt))
}

/// Result of building a payload.
enum BuiltPayload {
    Ready(String),
    Failed(DeliveryAttempt),
    /// Another node took over.
    TakenOver,
}

/// Builds the payload of a delivery.
///
/// # Errors
/// Returns an error if the database fails.
async fn build_payload(
    backend: &Backend,
    delivery: &hook_deliveries::Model,
    event_id: i64,
) -> Result<BuiltPayload> {
    if delivery.payload_attempts >= MAX_PAYLOAD_ATTEMPTS {
        // The process ended during the last attempts.
        return Ok(BuiltPayload::Failed(DeliveryAttempt::withheld(UNBUILDABLE)));
    }
    if !hook_deliveries::begin_payload(backend.database.write(), delivery).await? {
        return Ok(BuiltPayload::TakenOver);
    }
    let event = events::Entity::find_by_id(event_id).one(backend.database.read());
    let Some(event) = event.await? else {
        let attempt = DeliveryAttempt::without_payload("the event no longer exists");
        return Ok(BuiltPayload::Failed(attempt));
    };
    match payloads::body(backend, event).await {
        Ok(Some(payload)) => Ok(BuiltPayload::Ready(payload)),
        Ok(None) => Ok(BuiltPayload::Failed(DeliveryAttempt::withheld(TOO_LARGE))),
        // The job is retried.
        Err(error) if error.is_of_database() => Err(error),
        Err(error) => {
            tracing::warn!(%error, delivery = delivery.id, "failed to build a webhook payload");
            Ok(BuiltPayload::Failed(DeliveryAttempt::without_payload(
                UNBUILDABLE,
            )))
        }
    }
}

/// Returns a payload as the log of deliveries stores it.
fn logged_payload(payload: &str) -> ActiveValue<Option<String>> {
    Set((payload.len() <= MAX_STORED_BYTES).then(|| payload.to_owned()))
}

/// Returns whether a delivery for an unrestricted event is about a confidential resource by now, or `None` if the
/// resource was deleted.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn is_confidential(
    backend: &Backend,
    delivery: &hook_deliveries::Model,
    payload: &str,
) -> Result<Option<bool>> {
    if !matches!(delivery.kind, HookEvent::Issue | HookEvent::Note) {
        return Ok(Some(false));
    }
    let db = backend.database.read();
    match delivery.event_id {
        Some(event_id) => payloads::is_confidential(db, event_id).await,
        // A test delivery has no event.
        None => payloads::is_payload_confidential(db, payload).await,
    }
}

/// Returns the body that the webhook sends for a payload, or `None` if its template does not result in a body.
fn sent_body(hook: &project_hooks::Model, payload: String) -> Option<Bytes> {
    match &hook.custom_webhook_template {
        Some(template) => body_template::fill(template, &payload, payloads::MAX_BYTES).map(Bytes::from),
        None => Some(Bytes::from(payload)),
    }
}

/// A request that is sent immediately, while a caller waits.
pub(super) struct ImmediateRequest {
    /// Kind of the event.
    pub kind: HookEvent,
    /// ID of the event, unless it is a test.
    pub event_id: Option<i64>,
    /// Event UUID for the receiver; a new one if absent.
    pub uuid: Option<String>,
    /// The payload, unless it is too large.
    pub payload: Option<String>,
    /// Slot of the payload.
    pub slot: PayloadSlot,
}

/// Waits for the slot of a payload for a caller.
///
/// # Errors
/// Returns `Error::RateLimited` if no slot becomes free in time.
pub(super) async fn caller_slot(backend: &Backend, user_id: i64) -> Result<PayloadSlot> {
    let slot = backend.payload_slots.acquire_in_time(user_id).await?;
    slot.ok_or(Error::RateLimited(RETRY_AFTER))
}

/// Sends a request once, while a caller waits. Returns the row for the delivery log.
///
/// # Errors
/// Returns `Error::RateLimited` if too many callers are waiting for receivers.
pub(super) async fn send_once(
    backend: &Backend,
    hook: &project_hooks::Model,
    sent: ImmediateRequest,
) -> Result<(hook_deliveries::ActiveModel, DeliveryOutcome)> {
    let uuid = sent.uuid.unwrap_or_else(outbox::uuid);
    let attempt = match sent.payload {
        None => DeliveryAttempt::withheld(TOO_LARGE),
        Some(payload) => {
            let logged = logged_payload(&payload);
            match sent_body(hook, payload) {
                None => DeliveryAttempt::withheld(INVALID_TEMPLATE).with_payload(logged),
                Some(body) => {
                    let _slot = sent.slot.built(body.len());
                    let local = allows_local_requests(backend).await?;
                    let DeliveryRequest {
                        request,
                        logged_headers,
                    } = build(backend, hook, sent.kind, &uuid, body, local)?;
                    let outcome = backend.webhooks.send_now(request).await;
                    let outcome = outcome.ok_or(Error::RateLimited(RETRY_AFTER))?;
                    DeliveryAttempt::sent(outcome)
                        .with_headers(logged_headers)
                        .with_payload(logged)
                }
            }
        }
    };
    let verdict = attempt.outcome(1, attempt.payload_failures(0));
    let mut columns = log_columns(attempt);
    if sent.event_id.is_none() && !matches!(columns.request_body, Set(Some(_))) {
        // The table requires an event or a payload.
        columns.request_body = Set(Some(NO_PAYLOAD.to_owned()));
    }
    let at = now();
    let row = hook_deliveries::ActiveModel {
        hook_id: Set(hook.id),
        event_id: Set(sent.event_id),
        uuid: Set(uuid),
        kind: Set(sent.kind),
        url: Set(hook.url.clone()),
        state: Set(match verdict {
            DeliveryOutcome::Delivered => DeliveryState::Delivered,
            DeliveryOutcome::Retry | DeliveryOutcome::Failed => DeliveryState::Failed,
        }),
        attempts: Set(1),
        next_attempt_at: Set(at),
        created_at: Set(at),
        finished_at: Set(Some(at)),
        ..columns
    };
    Ok((row, verdict))
}

/// Returns the columns of an attempt in the delivery log.
pub(super) fn log_columns(attempt: DeliveryAttempt) -> hook_deliveries::ActiveModel {
    let mut row = hook_deliveries::ActiveModel {
        duration_ms: Set(Some(
            i32::try_from(attempt.duration.as_millis()).unwrap_or(i32::MAX),
        )),
        response_status: Set(None),
        response_headers: Set(None),
        response_body: Set(None),
        error: Set(None),
        request_body: attempt.payload,
        ..Default::default()
    };
    if let Some(headers) = attempt.request_headers {
        row.request_headers = Set(Some(headers));
    }
    match attempt.result {
        Ok(answer) => {
            let headers: serde_json::Map<String, serde_json::Value> = answer
                .headers
                .into_iter()
                .map(|(name, value)| (name, value.into()))
                .collect();
            row.response_status = Set(Some(answer.status.into()));
            row.response_headers = Set(serde_json::to_string(&headers).ok());
            row.response_body = Set(Some(answer.body));
        }
        Err(
            DeliveryFault::Receiver(reason)
            | DeliveryFault::Payload(reason)
            | DeliveryFault::Withheld(reason),
        ) => {
            row.error = Set(Some(reason.to_owned()));
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> DeliveryAttempt {
        DeliveryAttempt {
            payload: ActiveValue::NotSet,
            request_headers: None,
            result: Ok(WebhookResponse {
                status,
                headers: Vec::new(),
                body: String::new(),
            }),
            duration: Duration::ZERO,
        }
    }

    #[test]
    fn client_errors_are_final_and_outages_are_retried() {
        for (status, first, last) in [
            (200, DeliveryOutcome::Delivered, DeliveryOutcome::Delivered),
            (204, DeliveryOutcome::Delivered, DeliveryOutcome::Delivered),
            (302, DeliveryOutcome::Failed, DeliveryOutcome::Failed),
            (400, DeliveryOutcome::Failed, DeliveryOutcome::Failed),
            (410, DeliveryOutcome::Failed, DeliveryOutcome::Failed),
            (429, DeliveryOutcome::Retry, DeliveryOutcome::Retry),
            (500, DeliveryOutcome::Retry, DeliveryOutcome::Failed),
            (503, DeliveryOutcome::Retry, DeliveryOutcome::Retry),
        ] {
            let attempt = answered(status);
            assert_eq!(
                (attempt.outcome(1, 0), attempt.outcome(100, 0)),
                (first, last),
                "{status}"
            );
        }
        let silent = |fault| DeliveryAttempt {
            result: Err(fault),
            ..answered(0)
        };
        assert_eq!(
            silent(DeliveryFault::Receiver("down")).outcome(100, 0),
            DeliveryOutcome::Retry
        );
        let odd = silent(DeliveryFault::Payload("odd"));
        assert_eq!(odd.outcome(1, MAX_PAYLOAD_ATTEMPTS), DeliveryOutcome::Failed);
        // Failures of the receiver before do not count.
        assert_eq!(odd.outcome(100, 1), DeliveryOutcome::Retry);
        assert_eq!(
            (odd.payload_failures(1), answered(503).payload_failures(1)),
            (2, 0)
        );
        assert_eq!(
            silent(DeliveryFault::Withheld("hush")).outcome(1, 0),
            DeliveryOutcome::Failed
        );
    }
}
