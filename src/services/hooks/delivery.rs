//! Delivering: one hook at a time and in order, again and again until the receiver takes it or the hook is switched
//! off (ADR 15).
//!
//! A turn is a background job of the hook, so that no two nodes deliver to it at the same time and a killed one is
//! followed by another. What a turn finds out is settled in one transaction with the next turn.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::hook_deliveries::{self, State};
use storage::entities::{now, project_hooks};
use storage::jobs;

use super::attempt::{Attempt, OutOfTurn, Verdict, attempt, once, told};
use crate::error::{Error, Result};
use crate::jobs::deliver_hook::DeliverHook;
use crate::services::Backend;

/// How long a hook is delivered to before others get their turn.
const TURN: Duration = Duration::from_secs(20);
/// A hook is switched off after failing for so long, and no less often than this.
const FAILING: TimeDelta = TimeDelta::days(3);
const FAILURES: i32 = 10;

/// Delivers what a hook is still to be told, for a turn; the next turn is enqueued where there is more to do.
///
/// # Errors
/// Whatever the database reports. Receivers that fail are no errors.
pub async fn deliver(backend: &Backend, hook_id: i64) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < TURN {
        let db = backend.database.read();
        let hook = project_hooks::Entity::find_by_id(hook_id).one(db).await?;
        let Some(hook) = hook.filter(|hook| hook.disabled_at.is_none()) else {
            return Ok(());
        };
        let Some(delivery) = hook_deliveries::head(db, hook_id).await? else {
            return Ok(());
        };
        if delivery.next_attempt_at > now() {
            let due = delivery.next_attempt_at;
            let turn = DeliverHook { hook_id };
            return jobs::enqueue_at(backend.database.write(), &turn, due)
                .await
                .map_err(Error::internal);
        }
        let attempt = attempt(backend, &hook, &delivery).await?;
        if !settle(backend, &hook, &delivery, attempt).await? {
            return Ok(());
        }
    }
    jobs::enqueue(backend.database.write(), &DeliverHook { hook_id })
        .await
        .map_err(Error::internal)
}

/// Writes down how an attempt went, with what follows from it; whether to go on with the next delivery.
async fn settle(
    backend: &Backend,
    hook: &project_hooks::Model,
    delivery: &hook_deliveries::Model,
    attempt: Attempt,
) -> Result<bool> {
    let number = delivery.attempts.saturating_add(1);
    let verdict = attempt.verdict(number);
    let to_blame = attempt.is_receivers_fault();
    let wait = jobs::Options::default().wait_after(number);
    let due = now() + TimeDelta::from_std(wait).unwrap_or(TimeDelta::MAX);
    let row = hook_deliveries::ActiveModel {
        state: Set(match verdict {
            Verdict::Delivered => State::Delivered,
            Verdict::Later => State::Pending,
            Verdict::Never => State::Failed,
        }),
        attempts: Set(number),
        next_attempt_at: Set(due),
        url: Set(hook.url.clone()),
        finished_at: Set((verdict != Verdict::Later).then(now)),
        ..told(attempt)
    };
    backend
        .database
        .transaction(async |transaction| {
            let settled = hook_deliveries::Entity::update_many()
                .set(row)
                .filter(hook_deliveries::Column::Id.eq(delivery.id))
                .filter(hook_deliveries::Column::State.eq(State::Pending))
                .filter(hook_deliveries::Column::Attempts.eq(delivery.attempts));
            if settled.exec(transaction).await?.rows_affected == 0 {
                // The hook is gone, or another node took over.
                return Ok(false);
            }
            if verdict == Verdict::Delivered {
                if hook.failures > 0 {
                    mark(
                        transaction,
                        hook.id,
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
            if to_blame && blame(transaction, hook).await? {
                return Ok(false);
            }
            if verdict == Verdict::Later {
                let turn = DeliverHook { hook_id: hook.id };
                jobs::enqueue_at(transaction, &turn, due)
                    .await
                    .map_err(Error::internal)?;
            }
            Ok(verdict == Verdict::Never)
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

/// Counts a failure against a hook; whether that switched it off.
async fn blame(transaction: &DatabaseTransaction, hook: &project_hooks::Model) -> Result<bool> {
    let since = hook.failing_since.unwrap_or_else(now);
    let failures = hook.failures.saturating_add(1);
    let off = failures >= FAILURES && now() - since >= FAILING;
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

/// Switches a hook on again, forgets its failures, and lets it have its next turn at once.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn revive(transaction: &DatabaseTransaction, hook_id: i64) -> Result<()> {
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
        .filter(hook_deliveries::Column::State.eq(State::Pending))
        .filter(Expr::col(hook_deliveries::Column::NextAttemptAt).gt(now()))
        .exec(transaction)
        .await?;
    jobs::enqueue(transaction, &DeliverHook { hook_id })
        .await
        .map_err(Error::internal)
}

/// Sends out of turn, once; a success switches the hook on again.
///
/// # Errors
/// 429 when too many callers wait for receivers, 404 when the hook went away.
pub(super) async fn send_now(
    backend: &Backend,
    hook: &project_hooks::Model,
    sent: OutOfTurn,
) -> Result<hook_deliveries::Model> {
    let (row, verdict) = once(backend, hook, sent).await?;
    backend
        .database
        .transaction(async |transaction| {
            let row = row.insert(transaction).await;
            let row = row.map_err(|error| match Violation::of(&error) {
                Some(Violation::ForeignKey(_)) => Error::not_found(""),
                _ => error.into(),
            })?;
            if verdict == Verdict::Delivered && hook.failures > 0 {
                revive(transaction, hook.id).await?;
            }
            Ok(row)
        })
        .await
}
