//! What became of deliveries: listed, read, sent again, and swept.

use chrono::TimeDelta;
use sea_orm::sea_query::{Expr, ExprTrait, Keyword};
use sea_orm::{ColumnTrait, Condition, EntityTrait, Iterable, QueryFilter, QueryOrder, QuerySelect, Select};

use super::attempt::{OutOfTurn, is_withheld};
use super::delivery::send_now;
use super::trial::TRIALS;
use crate::services::kernel::page::{Page, PageRequest};
pub use storage::entities::hook_deliveries::State;
use storage::entities::hook_deliveries::{Column, Entity, Model};
use storage::entities::now;

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::listing::page_of;
use crate::services::throttle;

/// How long the log keeps what is done.
const KEPT: TimeDelta = TimeDelta::days(7);
/// How long it keeps what could not be delivered, such as to a hook that is switched off.
const HELD: TimeDelta = TimeDelta::days(30);
/// How many rows are swept in one statement.
const SWEPT: u64 = 500;

/// A page of a hook's deliveries, the newest first, without what was sent: that may be large, and is read singly.
///
/// # Errors
/// 404 for a hook that is not there.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    hook_id: i64,
    state: Option<State>,
    page: &PageRequest,
) -> Result<Page<Model>> {
    let hook = super::get(backend, access, hook_id).await?;
    let mut wanted = of_hook(hook.id)
        .select_only()
        .columns(Column::iter().filter(|column| !matches!(column, Column::RequestBody)))
        .expr_as(Expr::Keyword(Keyword::Null), "request_body")
        .order_by_desc(Column::Id);
    if let Some(state) = state {
        wanted = wanted.filter(Column::State.eq(state));
    }
    page_of(backend.database.read(), wanted, page).await
}

/// One delivery of a hook.
///
/// # Errors
/// 404, also for a delivery of another hook.
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

/// Sends once more what was delivered or given up, by the hook's present settings and with the same id.
///
/// # Errors
/// 404, 409 for what is still to be delivered and for what became confidential since, 429 for a user who does so too often, and when too many callers wait for
/// receivers.
pub async fn resend(backend: &Backend, access: &ProjectAccess, hook_id: i64, id: i64) -> Result<Model> {
    let hook = super::get(backend, access, hook_id).await?;
    let delivery = get(backend, access, hook_id, id).await?;
    let pending = || Error::Conflict("The delivery is still pending".into());
    if delivery.state == State::Pending {
        return Err(pending());
    }
    if is_withheld(backend, &delivery).await? {
        return Err(Error::Conflict(
            "The resource of this delivery is now confidential".into(),
        ));
    }
    let body = delivery.request_body.ok_or_else(pending)?;
    throttle::spend(backend, access.caller.signed_in()?.id, TRIALS).await?;
    let again = OutOfTurn {
        kind: delivery.kind,
        event_id: delivery.event_id,
        uuid: Some(delivery.uuid),
        body,
    };
    send_now(backend, &hook, again).await
}

/// Removes deliveries that are long done, and those that waited too long; gives their number.
///
/// # Errors
/// Whatever the database reports.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let old = || {
        Condition::any()
            .add(
                Column::State
                    .ne(State::Pending)
                    .and(Column::CreatedAt.lt(now() - KEPT)),
            )
            .add(Column::CreatedAt.lt(now() - HELD))
    };
    let mut swept = 0;
    loop {
        let ids: Vec<i64> = Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(old())
            .limit(SWEPT)
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
