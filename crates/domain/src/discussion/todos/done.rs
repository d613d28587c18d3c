//! Completes to-do items.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::now;
use storage::entities::todos::{self, Column, Entity};

use super::row::{self, Row};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::planning::todo_writer::complete_pending_of;

/// Marks a to-do item of the caller as done; it may be done already.
///
/// # Errors
/// Returns `NotFound` if the item does not exist, belongs to another user or has a target that is not
/// visible.
pub async fn finish(backend: &Backend, caller: &Caller, id: i64) -> Result<Row> {
    let user = caller.signed_in()?.id;
    let seen = Entity::find_by_id(id)
        .filter(Column::UserId.eq(user))
        .filter(todos::visible(caller.viewer(), now().date_naive()))
        .one(backend.database.read())
        .await?;
    if seen.is_none() {
        return Err(missing());
    }
    let one = complete_pending_of(user).filter(Column::Id.eq(id));
    one.exec(backend.database.write()).await?;
    let found = Entity::find_by_id(id).one(backend.database.read()).await?;
    row::of_one(backend, caller.viewer(), found.ok_or_else(missing)?).await
}

/// Marks all pending items of the caller as done.
///
/// # Errors
/// Returns `Unauthorized` without a caller, or an error if a database query fails.
pub async fn finish_all(backend: &Backend, caller: &Caller) -> Result<()> {
    let user = caller.signed_in()?.id;
    complete_pending_of(user).exec(backend.database.write()).await?;
    Ok(())
}

fn missing() -> Error {
    Error::not_found("")
}
