//! Creates to-do items.

use sea_orm::sea_query::{LockType, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use storage::entities::todos::{Action, ActiveModel, Column, Entity, State, Target};
use storage::entities::{Scope, now, users};

use super::row::{self, Row};
use crate::discussion::notes::{Key, Noteable};
use crate::identity::places::Place;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::review::merge_requests;

/// Maximum number of rows that one statement inserts.
const AT_ONCE: usize = 500;

/// The cause of to-do items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Because {
    /// The project or group.
    pub scope: Scope,
    /// The user who caused them.
    pub author_id: Option<i64>,
    /// The note that caused them.
    pub note_id: Option<i64>,
}

/// Creates to-do items for a target, except for users with a pending item for it.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn make(
    transaction: &DatabaseTransaction,
    target: Target,
    because: Because,
    users: Vec<(i64, Action)>,
) -> Result<u64> {
    let mut made = 0;
    for some in users.chunks(AT_ONCE) {
        let there = still_there(transaction, some.iter().map(|(id, _)| *id)).await?;
        let some = some.iter().filter(|(id, _)| there.contains(id));
        let rows: Vec<ActiveModel> = some
            .map(|(id, action)| pending(target, because, *id, *action))
            .collect();
        if rows.is_empty() {
            continue;
        }
        made += Entity::insert_many(rows)
            .on_conflict(OnConflict::new().do_nothing().to_owned())
            .exec_without_returning(transaction)
            .await?;
    }
    Ok(made)
}

fn pending(target: Target, because: Because, user_id: i64, action: Action) -> ActiveModel {
    let at = now();
    let mut row = ActiveModel {
        user_id: Set(user_id),
        author_id: Set(because.author_id),
        note_id: Set(because.note_id),
        action: Set(action),
        state: Set(State::Pending),
        created_at: Set(at),
        updated_at: Set(at),
        ..target.row()
    };
    match because.scope {
        Scope::Project(id) => row.project_id = Set(Some(id)),
        Scope::Group(id) => row.namespace_id = Set(Some(id)),
    }
    row
}

/// Returns the users who still exist, locked until the transaction ends.
async fn still_there(transaction: &DatabaseTransaction, ids: impl Iterator<Item = i64>) -> Result<Vec<i64>> {
    let kept = users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(users::Column::Id.is_in(ids))
        .order_by_asc(users::Column::Id)
        .lock(LockType::KeyShare);
    Ok(kept.into_tuple().all(transaction).await?)
}

/// Creates a to-do item for the caller.
///
/// # Errors
/// Returns `NotModified` if one is pending, and `NotFound` if the target is not visible. Returns `Forbidden`
/// for any merge request if merge requests are disabled for the caller.
pub async fn mark(backend: &Backend, place: &Place, key: Key) -> Result<Row> {
    let user = place.caller.signed_in()?.id;
    if matches!(key, Key::MergeRequest(_)) && !merge_requests::are_there(&place.on_project()?) {
        return Err(Error::forbidden());
    }
    let on = Noteable::find(backend.database.read(), place, key).await?;
    let target = on.id().todo_target().ok_or_else(|| Error::not_found(""))?;
    let because = Because {
        scope: place.scope(),
        author_id: Some(user),
        note_id: None,
    };
    let made = backend
        .database
        .transaction(async |transaction| {
            Noteable::lock(transaction, place, key).await?;
            if make(transaction, target, because, vec![(user, Action::Marked)]).await? == 0 {
                return Err(Error::NotModified);
            }
            let pending = Entity::find()
                .filter(Column::UserId.eq(user))
                .filter(Column::State.eq(State::Pending))
                .filter(target.holds());
            let made = pending.one(transaction).await?;
            made.ok_or_else(|| Error::not_found(""))
        })
        .await?;
    row::of_one(backend, place.caller.viewer(), made).await
}
