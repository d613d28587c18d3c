//! Creates and completes to-do items.

use sea_orm::sea_query::{Expr, LockType, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    UpdateMany,
};
use storage::entities::todos::{ActiveModel, Column, Entity, TodoAction, TodoState, TodoTarget};
use storage::entities::{Scope, now, users};

use crate::kernel::error::Result;

/// Maximum number of rows that one statement inserts.
const BATCH_SIZE: usize = 500;

/// The cause of to-do items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TodoCause {
    /// The project or group.
    pub scope: Scope,
    /// The user who caused them.
    pub author_id: Option<i64>,
    /// The note that caused them.
    pub note_id: Option<i64>,
}

/// Creates to-do items for a target, except for users with a pending item for it. Returns the number of new
/// items.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn create(
    transaction: &DatabaseTransaction,
    target: TodoTarget,
    cause: TodoCause,
    users: Vec<(i64, TodoAction)>,
) -> Result<u64> {
    let mut created = 0;
    for batch in users.chunks(BATCH_SIZE) {
        let existing = lock_existing(transaction, batch.iter().map(|(id, _)| *id)).await?;
        let users = batch.iter().filter(|(id, _)| existing.contains(id));
        let rows: Vec<ActiveModel> = users
            .map(|(id, action)| new_item(target, cause, *id, *action))
            .collect();
        if rows.is_empty() {
            continue;
        }
        created += Entity::insert_many(rows)
            .on_conflict(OnConflict::new().do_nothing().to_owned())
            .exec_without_returning(transaction)
            .await?;
    }
    Ok(created)
}

fn new_item(target: TodoTarget, cause: TodoCause, user_id: i64, action: TodoAction) -> ActiveModel {
    let at = now();
    let mut row = ActiveModel {
        user_id: Set(user_id),
        author_id: Set(cause.author_id),
        note_id: Set(cause.note_id),
        action: Set(action),
        state: Set(TodoState::Pending),
        created_at: Set(at),
        updated_at: Set(at),
        ..target.to_row()
    };
    match cause.scope {
        Scope::Project(id) => row.project_id = Set(Some(id)),
        Scope::Group(id) => row.namespace_id = Set(Some(id)),
    }
    row
}

/// Returns the users who still exist, locked until the transaction ends.
async fn lock_existing(
    transaction: &DatabaseTransaction,
    ids: impl Iterator<Item = i64>,
) -> Result<Vec<i64>> {
    let existing = users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(users::Column::Id.is_in(ids))
        .order_by_asc(users::Column::Id)
        .lock(LockType::KeyShare);
    Ok(existing.into_tuple().all(transaction).await?)
}

/// Completes a user's pending items for a target, because the user acted on it.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn complete(
    transaction: &DatabaseTransaction,
    user_id: i64,
    target: TodoTarget,
) -> Result<()> {
    complete_pending_of(user_id)
        .filter(target.condition())
        .exec(transaction)
        .await?;
    Ok(())
}

/// Returns the update that completes a user's pending items.
pub(crate) fn complete_pending_of(user_id: i64) -> UpdateMany<Entity> {
    Entity::update_many()
        .col_expr(Column::State, Expr::value(TodoState::Done))
        .col_expr(Column::UpdatedAt, Expr::value(now()))
        .filter(Column::UserId.eq(user_id))
        .filter(Column::State.eq(TodoState::Pending))
}
