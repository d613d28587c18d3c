//! Requests to external status checks, one at a time and in order per check, with the client, the delays and the turns
//! of webhooks (ADR 15). A request that fails permanently fails the check of the merge request (ADR 69).

use std::time::Instant;

use bytes::Bytes;
use chrono::TimeDelta;
use hmac::{Hmac, KeyInit, Mac};
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use sha2::Sha256;
use storage::clock::scheduling_time;
use storage::entities::project_hooks::HookEvent;
use storage::entities::status_check_deliveries::{self, Column, Entity, Model};
use storage::entities::{events, status_checks};
use storage::jobs;

use super::attempt::{DeliveryAttempt, DeliveryOutcome, MAX_PAYLOAD_ATTEMPTS, TOO_LARGE, UNBUILDABLE};
use super::delivery::{FAILURE_PERIOD, MAX_TURN, is_due, payload_holder};
use super::payloads;
use super::request::{EVENT, UUID};
use crate::activity::jobs::deliver_status_check::DeliverStatusCheck;
use crate::instance::settings::allows_local_requests;
use crate::integrations::webhooks::WebhookRequest;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::review::status_checks::evaluation::has_checks;
use crate::review::status_checks::responses;
use crate::review::status_checks::settings::secret_context;
use crate::secrets::Secret;

/// Header with the signature, in this service and in the compatible mode.
const SIGNATURE: [&str; 2] = ["X-Service-Signature", "X-Gitlab-Signature"];

/// Sends the pending requests to a status check for one turn, and enqueues the next turn if some remain.
///
/// # Errors
/// Returns an error if the database fails. Failures of services are not errors.
pub async fn deliver(backend: &Backend, status_check_id: i64) -> Result<()> {
    let turn = DeliverStatusCheck { status_check_id };
    let begun = Instant::now();
    while begun.elapsed() < MAX_TURN {
        let db = backend.database.read();
        let check = status_checks::Entity::find_by_id(status_check_id).one(db).await?;
        let Some(check) = check else { return Ok(()) };
        let Some(delivery) = status_check_deliveries::next(db, status_check_id).await? else {
            return Ok(());
        };
        if !is_due(delivery.attempts, delivery.next_attempt_at) {
            return jobs::enqueue_at(backend.database.write(), &turn, delivery.next_attempt_at)
                .await
                .map_err(Error::internal);
        }
        match attempt_and_record(backend, &check, &delivery).await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                let forgotten =
                    status_check_deliveries::forget_payload(backend.database.write(), &delivery).await;
                if let Err(error) = forgotten {
                    tracing::warn!(%error, delivery = delivery.id, "failed to reset a count of payload attempts");
                }
                return Err(error);
            }
        }
    }
    jobs::enqueue(backend.database.write(), &turn)
        .await
        .map_err(Error::internal)
}

/// Attempts a request once, and records the result. Returns whether to continue with the next request.
async fn attempt_and_record(
    backend: &Backend,
    check: &status_checks::Model,
    delivery: &Model,
) -> Result<bool> {
    match attempt(backend, check, delivery).await? {
        Some(attempt) => record_attempt(backend, delivery, &attempt).await,
        None => Ok(false),
    }
}

/// Attempts a request once. Returns `None` if another node took over.
async fn attempt(
    backend: &Backend,
    check: &status_checks::Model,
    delivery: &Model,
) -> Result<Option<DeliveryAttempt>> {
    if !has_checks(backend) {
        return Ok(Some(DeliveryAttempt::withheld(
            "the plan has no external status checks",
        )));
    }
    if delivery.payload_attempts >= MAX_PAYLOAD_ATTEMPTS {
        // The process ended during the last attempts.
        return Ok(Some(DeliveryAttempt::withheld(UNBUILDABLE)));
    }
    let holder = payload_holder(backend.database.read(), check.project_id).await?;
    let slot = backend.payload_slots.acquire(holder).await?;
    if !status_check_deliveries::begin_payload(backend.database.write(), delivery).await? {
        return Ok(None);
    }
    let event = events::Entity::find_by_id(delivery.event_id).one(backend.database.read());
    let Some(event) = event.await? else {
        return Ok(Some(DeliveryAttempt::without_payload(
            "the event no longer exists",
        )));
    };
    let body = match payloads::status_check_body(backend, event, check).await {
        Ok(Some(body)) => Bytes::from(body),
        Ok(None) => return Ok(Some(DeliveryAttempt::withheld(TOO_LARGE))),
        // The job is retried.
        Err(error) if error.is_of_database() => return Err(error),
        Err(error) => {
            tracing::warn!(%error, delivery = delivery.id, "failed to build a payload for a status check");
            return Ok(Some(DeliveryAttempt::without_payload(UNBUILDABLE)));
        }
    };
    let _slot = slot.built(body.len());
    let local = allows_local_requests(backend).await?;
    match request(backend, check, delivery, body, local) {
        Ok(request) => Ok(Some(DeliveryAttempt::sent(backend.webhooks.send(request).await))),
        Err(error) => {
            tracing::error!(%error, check = check.id, "failed to decrypt the secret of a status check");
            Ok(Some(DeliveryAttempt::without_payload(
                "the secret of the status check cannot be read",
            )))
        }
    }
}

/// Returns the request. URL and secret are those of one row, so that a change in between never signs for another
/// service.
fn request(
    backend: &Backend,
    check: &status_checks::Model,
    delivery: &Model,
    body: Bytes,
    local: bool,
) -> Result<WebhookRequest> {
    let names = if backend.instance.compat { 2 } else { 1 };
    let secret = check.shared_secret_encrypted.as_deref();
    let secret = secret.map(|sealed| backend.keyring.decrypt(sealed, &secret_context(check.id)));
    let signature = match secret.transpose()? {
        Some(secret) => Some(signature(&secret, &body)?),
        None => None,
    };
    let mut headers = Vec::new();
    let mut secrets = Vec::new();
    for ((event, id), name) in EVENT.into_iter().zip(UUID).zip(SIGNATURE).take(names) {
        headers.push((event, HookEvent::MergeRequest.title().to_owned()));
        headers.push((id, delivery.uuid.clone()));
        secrets.extend(signature.clone().map(|signature| (name, Secret::new(signature))));
    }
    Ok(WebhookRequest {
        url: check.external_url.clone(),
        password: None,
        headers,
        secrets,
        custom_headers: Vec::new(),
        body,
        verify: true,
        local,
    })
}

/// Returns the HMAC-SHA-256 of a body in hex.
fn signature(secret: &Secret<String>, body: &[u8]) -> Result<String> {
    let key = secret.expose().as_bytes();
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).map_err(Error::internal)?;
    mac.update(body);
    Ok(hex::encode(mac.finalize().into_bytes()))
}

/// Records the result of an attempt and its consequences. Returns whether to continue with the next request.
async fn record_attempt(backend: &Backend, delivery: &Model, attempt: &DeliveryAttempt) -> Result<bool> {
    let number = delivery.attempts.saturating_add(1);
    let is_expired = scheduling_time() - delivery.created_at >= FAILURE_PERIOD;
    let payload_failures = attempt.payload_failures(delivery.payload_attempts);
    let outcome = match attempt.outcome(number, payload_failures) {
        DeliveryOutcome::Retry if is_expired => DeliveryOutcome::Failed,
        outcome => outcome,
    };
    let wait = jobs::RunnerOptions::default().retry_delay(number);
    let due = scheduling_time() + TimeDelta::from_std(wait).unwrap_or(TimeDelta::MAX);
    backend
        .database
        .transaction(async |transaction| {
            if outcome == DeliveryOutcome::Retry {
                let row = status_check_deliveries::ActiveModel {
                    attempts: Set(number),
                    payload_attempts: Set(payload_failures),
                    next_attempt_at: Set(due),
                    ..Default::default()
                };
                let updated = Entity::update_many()
                    .set(row)
                    .filter(Column::Id.eq(delivery.id))
                    .filter(Column::Attempts.eq(delivery.attempts));
                if updated.exec(transaction).await?.rows_affected > 0 {
                    let turn = DeliverStatusCheck {
                        status_check_id: delivery.status_check_id,
                    };
                    jobs::enqueue_at(transaction, &turn, due)
                        .await
                        .map_err(Error::internal)?;
                }
                return Ok(false);
            }
            let merge_request = match outcome {
                DeliveryOutcome::Failed => responses::lock_subjects(transaction, delivery).await?,
                _ => None,
            };
            let deleted = Entity::delete_many()
                .filter(Column::Id.eq(delivery.id))
                .filter(Column::Attempts.eq(delivery.attempts));
            if deleted.exec(transaction).await?.rows_affected == 0 {
                // The check or the merge request was deleted, or another node took over.
                return Ok(false);
            }
            if let Some(merge_request) = merge_request {
                responses::fail_undelivered(transaction, &merge_request, delivery).await?;
            }
            Ok(true)
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_hmac_sha256_of_the_body() {
        // Test case 2 of RFC 4231.
        let signature = signature(&Secret::new("Jefe".to_owned()), b"what do ya want for nothing?");
        assert_eq!(
            signature.ok().as_deref(),
            Some("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        );
    }
}
