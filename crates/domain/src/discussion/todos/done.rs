//! Completes to-do items.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, UpdateMany};
use storage::entities::now;
use storage::entities::todos::{self, Column, Entity, State, Target};

use super::row::{self, Row};
use crate::identity::authentication::Caller;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

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
    let one = pending_of(user).filter(Column::Id.eq(id));
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
    pending_of(user).exec(backend.database.write()).await?;
    Ok(())
}

/// Marks a user's pending items for a target as done, because the user acted on it.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn settle(transaction: &DatabaseTransaction, user_id: i64, target: Target) -> Result<()> {
    pending_of(user_id)
        .filter(target.holds())
        .exec(transaction)
        .await?;
    Ok(())
}

/// Returns the update that completes a user's pending items.
fn pending_of(user_id: i64) -> UpdateMany<Entity> {
    Entity::update_many()
        .col_expr(Column::State, Expr::value(State::Done))
        .col_expr(Column::UpdatedAt, Expr::value(now()))
        .filter(Column::UserId.eq(user_id))
        .filter(Column::State.eq(State::Pending))
}

fn missing() -> Error {
    Error::not_found("")
}
