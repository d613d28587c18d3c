//! Marks to-do items as done.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::now;
use storage::entities::todos::{self, Column, Entity};

use super::detail::{TodoDetail, load_written};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::planning::todo_writer::complete_pending_of;

/// Marks a to-do item of the caller as done. An item that is done does not change.
///
/// # Errors
/// Returns `NotFound` if the item does not exist, belongs to another user or has a target that is not
/// visible.
pub async fn mark_done(backend: &Backend, caller: &Caller, id: i64) -> Result<TodoDetail> {
    let user_id = caller.signed_in()?.id;
    let visible = Entity::find_by_id(id)
        .filter(Column::UserId.eq(user_id))
        .filter(todos::visible(caller.viewer(), now().date_naive()))
        .one(backend.database.read())
        .await?;
    if visible.is_none() {
        return Err(missing());
    }
    let update = complete_pending_of(user_id).filter(Column::Id.eq(id));
    update.exec(backend.database.write()).await?;
    let todo = Entity::find_by_id(id).one(backend.database.read()).await?;
    load_written(backend, caller, todo.ok_or_else(missing)?).await
}

/// Marks all pending items of the caller as done.
///
/// # Errors
/// Returns `Unauthorized` without a caller, or an error if a database query fails.
pub async fn mark_all_done(backend: &Backend, caller: &Caller) -> Result<()> {
    let user_id = caller.signed_in()?.id;
    complete_pending_of(user_id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}

fn missing() -> Error {
    Error::not_found("")
}
