//! Marking to-do items as done.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, UpdateMany};
use storage::entities::now;
use storage::entities::todos::{self, Column, Entity, State, Target};

use super::row::{self, Row};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::authentication::Caller;

/// Marks an item of the caller as done, also one that is done already.
///
/// # Errors
/// 404, also for somebody else's, and for what the caller may not see any more.
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

/// Marks whatever waits for the caller as done.
///
/// # Errors
/// 401, and whatever the database reports.
pub async fn finish_all(backend: &Backend, caller: &Caller) -> Result<()> {
    let user = caller.signed_in()?.id;
    pending_of(user).exec(backend.database.write()).await?;
    Ok(())
}

/// What waits for a user on a thing is done, because the user did something with it.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn settle(
    transaction: &DatabaseTransaction,
    user_id: i64,
    target: Target,
) -> Result<()> {
    pending_of(user_id)
        .filter(target.holds())
        .exec(transaction)
        .await?;
    Ok(())
}

/// The change that ends what waits for a user.
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
