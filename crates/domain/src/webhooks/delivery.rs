//! Delivery of webhooks, one at a time and in order per webhook. A delivery is retried until the receiver
//! accepts it or the webhook is disabled (ADR 15).
//!
//! Each turn is a background job of one webhook. No two nodes deliver to it concurrently, and another node
//! takes over from a killed one. The results of a turn and the next turn are committed in one transaction.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    QueryFilter, QuerySelect,
};
use storage::clock::scheduling_time;
use storage::database::Violation;
use storage::entities::hook_deliveries::{self, DeliveryState};
use storage::entities::{now, project_hooks, projects};
use storage::jobs::{self, JobFailure};

use super::attempt::{DeliveryAttempt, DeliveryOutcome, ImmediateRequest, attempt, log_columns, send_once};
use crate::activity::jobs::deliver_webhook::DeliverWebhook;
use crate::integrations::work_shares::WorkShare;
use crate::kernel::Backend;
use crate::kernel::budgets::{PayloadHolder, PayloadSlot};
use crate::kernel::error::{Error, Result};

/// Maximum duration of a turn, after which other webhooks get theirs.
pub(super) const MAX_TURN: Duration = Duration::from_secs(20);
/// A webhook is disabled after failing for this time and at least this often.
pub(super) const FAILURE_PERIOD: TimeDelta = TimeDelta::days(3);
const MAX_FAILURES: i32 = 10;
/// Reason why deliveries are sent later.
const OTHERS_RUN: &str = "other deliveries of the project or of its creator are running";

/// Sends the pending deliveries of a webhook for one turn, and enqueues the next turn if some remain.
///
/// # Errors
/// Returns an error if the database fails. Failures of receivers are not errors.
pub async fn deliver(backend: &Backend, hook_id: i64) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < MAX_TURN {
        let db = backend.database.read();
        let hook = project_hooks::by_id(hook_id).one(db).await?;
        let Some(hook) = hook.filter(|hook| hook.disabled_at.is_none()) else {
            return Ok(());
        };
        let holder = payload_holder(db, hook.project_id).await?;
        // The row may contain a payload.
        let slot = backend.payload_slots.acquire(holder).await?;
        let Some(mut delivery) = hook_deliveries::next(db, hook_id).await? else {
            return Ok(());
        };
        if !is_due(delivery.attempts, delivery.next_attempt_at) {
            let due = delivery.next_attempt_at;
            let turn = DeliverWebhook { hook_id };
            return jobs::enqueue_at(backend.database.write(), &turn, due)
                .await
                .map_err(Error::internal);
        }
        match attempt_and_record(backend, &hook, &mut delivery, slot).await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                let forgotten = hook_deliveries::forget_payload(backend.database.write(), &delivery).await;
                if let Err(error) = forgotten {
                    tracing::warn!(%error, delivery = delivery.id, "failed to reset a count of payload attempts");
                }
                return Err(error);
            }
        }
    }
    jobs::enqueue(backend.database.write(), &DeliverWebhook { hook_id })
        .await
        .map_err(Error::internal)
}

/// Attempts a delivery once, with a slot for its payload, and records the result. Returns whether to continue with the
/// next delivery.
async fn attempt_and_record(
    backend: &Backend,
    hook: &project_hooks::Model,
    delivery: &mut hook_deliveries::Model,
    slot: PayloadSlot,
) -> Result<bool> {
    match attempt(backend, hook, delivery, slot).await? {
        Some(attempt) => record_attempt(backend, hook, delivery, attempt).await,
        None => Ok(false),
    }
}

/// Returns the user whose share the deliveries of a project use: the creator of the project.
///
/// # Errors
/// Returns an error if the database fails.
async fn creator_of(db: &impl ConnectionTrait, project_id: i64) -> Result<Option<i64>> {
    let creator: Option<Option<i64>> = projects::Entity::find_by_id(project_id)
        .select_only()
        .column(projects::Column::CreatorId)
        .into_tuple()
        .one(db)
        .await?;
    Ok(creator.flatten())
}

/// Returns whose share the payloads of a project use.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn payload_holder(db: &impl ConnectionTrait, project_id: i64) -> Result<PayloadHolder> {
    let creator = creator_of(db, project_id).await?;
    Ok(creator.map_or(PayloadHolder::Project(project_id), PayloadHolder::User))
}

/// Takes the share of the deliveries of a project, until the share is dropped.
///
/// # Errors
/// Postpones the job if too many deliveries of the project or of its creator run.
pub(super) async fn take_share(backend: &Backend, project_id: i64) -> Result<WorkShare, JobFailure> {
    let user_id = creator_of(backend.database.read(), project_id).await?;
    let share = backend.webhooks.take_share(project_id, user_id);
    share.map_err(|exceeded| JobFailure::postponed(exceeded.delay, OTHERS_RUN))
}

/// Returns whether an attempt is due. An attempt that is scheduled later than its maximum delay was scheduled before
/// the clock of the system was set back.
pub(super) fn is_due(attempts: i32, next_attempt_at: DateTime<Utc>) -> bool {
    let longest = jobs::RunnerOptions::default().longest_retry_delay(attempts);
    let longest = TimeDelta::from_std(longest).unwrap_or(TimeDelta::MAX);
    let wait = next_attempt_at - scheduling_time();
    attempts == 0 || wait <= TimeDelta::zero() || wait > longest
}

/// Records the result of an attempt and its consequences. Returns whether to continue with the next delivery. If
/// the webhook changed during the attempt, the result does not count for the webhook, and a pending delivery is
/// retried at once.
async fn record_attempt(
    backend: &Backend,
    hook: &project_hooks::Model,
    delivery: &hook_deliveries::Model,
    attempt: DeliveryAttempt,
) -> Result<bool> {
    let number = delivery.attempts.saturating_add(1);
    let payload_failures = attempt.payload_failures(delivery.payload_attempts);
    let verdict = attempt.outcome(number, payload_failures);
    let to_blame = attempt.is_receiver_fault();
    let wait = jobs::RunnerOptions::default().retry_delay(number);
    let due = scheduling_time() + TimeDelta::from_std(wait).unwrap_or(TimeDelta::MAX);
    let row = hook_deliveries::ActiveModel {
        state: Set(match verdict {
            DeliveryOutcome::Delivered => DeliveryState::Delivered,
            DeliveryOutcome::Retry => DeliveryState::Pending,
            DeliveryOutcome::Failed => DeliveryState::Failed,
        }),
        attempts: Set(number),
        payload_attempts: Set(payload_failures),
        url: Set(hook.url.clone()),
        finished_at: Set((verdict != DeliveryOutcome::Retry).then(now)),
        ..log_columns(attempt)
    };
    backend
        .database
        .transaction(async |transaction| {
            // Locked before the delivery, as in updates of the webhook.
            let Some(current) = project_hooks::lock(transaction, hook.id).await? else {
                return Ok(false);
            };
            let is_current = current.url == hook.url
                && current.url_variables_encrypted == hook.url_variables_encrypted
                && current.failures == hook.failures
                && current.failing_since == hook.failing_since;
            let due = if is_current { due } else { scheduling_time() };
            let row = hook_deliveries::ActiveModel {
                next_attempt_at: Set(due),
                ..row
            };
            let settled = hook_deliveries::Entity::update_many()
                .set(row)
                .filter(hook_deliveries::Column::Id.eq(delivery.id))
                .filter(hook_deliveries::Column::State.eq(DeliveryState::Pending))
                .filter(hook_deliveries::Column::Attempts.eq(delivery.attempts));
            if settled.exec(transaction).await?.rows_affected == 0 {
                // Another node took over.
                return Ok(false);
            }
            if verdict == DeliveryOutcome::Delivered {
                if is_current && current.failures > 0 {
                    mark(
                        transaction,
                        current.id,
                        project_hooks::ActiveModel {
                            failures: Set(0),
                            failing_since: Set(None),
                            ..Default::default()
                        },
                    )
                    .await?;
                }
                return Ok(true);
            }
            if to_blame && is_current && count_failure(transaction, &current).await? {
                return Ok(false);
            }
            if verdict == DeliveryOutcome::Retry {
                let turn = DeliverWebhook { hook_id: hook.id };
                jobs::enqueue_at(transaction, &turn, due)
                    .await
                    .map_err(Error::internal)?;
            }
            Ok(verdict == DeliveryOutcome::Failed)
        })
        .await
}

async fn mark(
    transaction: &DatabaseTransaction,
    hook_id: i64,
    row: project_hooks::ActiveModel,
) -> Result<()> {
    project_hooks::Entity::update_many()
        .set(row)
        .filter(project_hooks::Column::Id.eq(hook_id))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Counts a failure of a webhook. Returns whether the webhook was disabled.
async fn count_failure(transaction: &DatabaseTransaction, hook: &project_hooks::Model) -> Result<bool> {
    let since = hook.failing_since.unwrap_or_else(now);
    let failures = hook.failures.saturating_add(1);
    let off = failures >= MAX_FAILURES && now() - since >= FAILURE_PERIOD;
    let row = project_hooks::ActiveModel {
        failures: Set(failures),
        failing_since: Set(Some(since)),
        disabled_at: Set(off.then(now)),
        ..Default::default()
    };
    mark(transaction, hook.id, row).await?;
    if off {
        tracing::warn!(
            hook = hook.id,
            project = hook.project_id,
            "disabled a failing webhook"
        );
    }
    Ok(off)
}

/// Enables a webhook again, resets its failures and schedules its next turn for now.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn reenable(transaction: &DatabaseTransaction, hook_id: i64) -> Result<()> {
    let row = project_hooks::ActiveModel {
        failures: Set(0),
        failing_since: Set(None),
        disabled_at: Set(None),
        ..Default::default()
    };
    mark(transaction, hook_id, row).await?;
    hook_deliveries::Entity::update_many()
        .col_expr(hook_deliveries::Column::NextAttemptAt, Expr::value(now()))
        .filter(hook_deliveries::Column::HookId.eq(hook_id))
        .filter(hook_deliveries::Column::State.eq(DeliveryState::Pending))
        .filter(Expr::col(hook_deliveries::Column::NextAttemptAt).gt(now()))
        .exec(transaction)
        .await?;
    jobs::enqueue(transaction, &DeliverWebhook { hook_id })
        .await
        .map_err(Error::internal)
}

/// Sends a request immediately, once. A success enables the webhook again.
///
/// # Errors
/// Returns `Error::RateLimited` if too many callers are waiting for receivers. Returns `Error::NotFound` if
/// the webhook was deleted.
pub(super) async fn send_now(
    backend: &Backend,
    hook: &project_hooks::Model,
    sent: ImmediateRequest,
) -> Result<hook_deliveries::Model> {
    let (row, verdict) = send_once(backend, hook, sent).await?;
    backend
        .database
        .transaction(async |transaction| {
            if project_hooks::lock(transaction, hook.id).await?.is_none() {
                return Err(Error::not_found(""));
            }
            let row = row.insert(transaction).await;
            let row = row.map_err(|error| match Violation::of(&error) {
                Some(Violation::ForeignKey(_)) => Error::not_found(""),
                _ => error.into(),
            })?;
            if verdict == DeliveryOutcome::Delivered && hook.failures > 0 {
                reenable(transaction, hook.id).await?;
            }
            Ok(row)
        })
        .await
}
