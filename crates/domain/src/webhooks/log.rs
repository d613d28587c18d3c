//! Log of deliveries: lists, redelivery and expiration.

use chrono::TimeDelta;
use sea_orm::sea_query::{Expr, ExprTrait, Keyword};
use sea_orm::{ColumnTrait, Condition, EntityTrait, Iterable, QueryFilter, QueryOrder, QuerySelect, Select};

use super::attempt::{ImmediateRequest, NO_PAYLOAD, caller_slot, is_confidential};
use super::delivery::send_now;
use crate::kernel::page::{Page, PageRequest};
use crate::webhooks::test_delivery::TEST_QUOTA;
pub use storage::entities::hook_deliveries::DeliveryState;
use storage::entities::hook_deliveries::{Column, Entity, Model};
use storage::entities::now;

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::page_of;
use crate::kernel::rate_limit;

/// Retention of finished deliveries.
const FINISHED_RETENTION: TimeDelta = TimeDelta::days(7);
/// Retention of pending deliveries, such as those of a disabled webhook.
const PENDING_RETENTION: TimeDelta = TimeDelta::days(30);
/// Reason why a delivery cannot be sent again.
const NOT_STORED: &str =
    "The payload of this delivery is not stored, for example because it is larger than 1 MiB";
/// Maximum rows deleted per statement.
const MAX_SWEPT: u64 = 500;

/// Returns a page of a webhook's deliveries, newest first. Request bodies may be large and are only loaded
/// for single deliveries.
///
/// # Errors
/// Returns `Error::NotFound` if the webhook does not exist.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    hook_id: i64,
    state: Option<DeliveryState>,
    page: &PageRequest,
) -> Result<Page<Model>> {
    let hook = super::get(backend, access, hook_id).await?;
    // The rows are read by the positions of the columns, so the null takes the place of the request body.
    let mut query = Column::iter()
        .fold(of_hook(hook.id).select_only(), |query, column| match column {
            Column::RequestBody => query.expr_as(Expr::Keyword(Keyword::Null), "request_body"),
            column => query.column(column),
        })
        .order_by_desc(Column::Id);
    if let Some(state) = state {
        query = query.filter(Column::State.eq(state));
    }
    page_of(backend.database.read(), query, page).await
}

/// Returns one delivery of a webhook.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another webhook.
pub async fn get(backend: &Backend, access: &ProjectAccess, hook_id: i64, id: i64) -> Result<Model> {
    let hook = super::get(backend, access, hook_id).await?;
    let found = of_hook(hook.id)
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    found.ok_or_else(|| Error::not_found(""))
}

fn of_hook(hook_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::HookId.eq(hook_id))
}

/// Sends a finished delivery again, with the current settings of the webhook and the same UUID.
///
/// # Errors
/// Returns `Error::NotFound` if the delivery does not exist. Returns `Error::Conflict` if it is pending, its resource
/// is confidential by now or was deleted, or its payload is not stored. Returns `Error::RateLimited` if the user
/// exceeds the quota or too many callers are waiting for receivers.
pub async fn resend(backend: &Backend, access: &ProjectAccess, hook_id: i64, id: i64) -> Result<Model> {
    let hook = super::get(backend, access, hook_id).await?;
    let user_id = access.caller.signed_in()?.id;
    // The row contains the payload.
    let slot = caller_slot(backend, user_id).await?;
    let delivery = get(backend, access, hook_id, id).await?;
    if delivery.state == DeliveryState::Pending {
        return Err(Error::Conflict("The delivery is still pending".into()));
    }
    let payload = delivery.request_body.as_deref();
    let payload = payload.filter(|payload| *payload != NO_PAYLOAD);
    let payload = payload.ok_or_else(|| Error::Conflict(NOT_STORED.into()))?;
    let refusal = match is_confidential(backend, &delivery, payload).await? {
        Some(false) => None,
        Some(true) => Some("The resource of this delivery is now confidential"),
        None => Some("The resource of this delivery was deleted"),
    };
    if let Some(refusal) = refusal {
        return Err(Error::Conflict(refusal.into()));
    }
    rate_limit::consume(backend, user_id, TEST_QUOTA).await?;
    let again = ImmediateRequest {
        kind: delivery.kind,
        event_id: delivery.event_id,
        uuid: Some(delivery.uuid),
        payload: delivery.request_body,
        slot,
    };
    send_now(backend, &hook, again).await
}

/// Deletes expired deliveries. Returns their number.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let old = || {
        Condition::any()
            .add(
                Column::State
                    .ne(DeliveryState::Pending)
                    .and(Column::CreatedAt.lt(now() - FINISHED_RETENTION)),
            )
            .add(Column::CreatedAt.lt(now() - PENDING_RETENTION))
    };
    let mut swept = 0;
    loop {
        let ids: Vec<i64> = Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(old())
            .limit(MAX_SWEPT)
            .into_tuple()
            .all(backend.database.read())
            .await?;
        if ids.is_empty() {
            return Ok(swept);
        }
        let done = Entity::delete_many().filter(Column::Id.is_in(ids));
        swept += done.exec(backend.database.write()).await?.rows_affected;
    }
}
