//! Creation of a to-do item by its user.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::todos::{Column, Entity, TodoAction, TodoState};

use super::detail::{TodoDetail, load_written};
use crate::discussion::noteable::{Noteable, NoteableKey};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::planning::todo_writer::{self, TodoCause};
use crate::review::merge_requests;

/// Creates a to-do item for the caller.
///
/// # Errors
/// Returns `NotModified` if one is pending, and `NotFound` if the target is not visible. Returns `Forbidden`
/// for any merge request if merge requests are disabled for the caller.
pub async fn create(backend: &Backend, space: &SpaceAccess, key: NoteableKey) -> Result<TodoDetail> {
    let user_id = space.caller.signed_in()?.id;
    if matches!(key, NoteableKey::MergeRequest(_)) && !merge_requests::is_enabled(&space.project_access()?) {
        return Err(Error::forbidden());
    }
    let noteable = Noteable::find(backend.database.read(), space, key).await?;
    let target = noteable.id().todo_target().ok_or_else(|| Error::not_found(""))?;
    let cause = TodoCause {
        scope: space.scope(),
        author_id: Some(user_id),
        note_id: None,
    };
    let todo = backend
        .database
        .transaction(async |transaction| {
            Noteable::lock(transaction, space, key).await?;
            if todo_writer::create(transaction, target, cause, vec![(user_id, TodoAction::Marked)]).await?
                == 0
            {
                return Err(Error::NotModified);
            }
            let pending = Entity::find()
                .filter(Column::UserId.eq(user_id))
                .filter(Column::State.eq(TodoState::Pending))
                .filter(target.condition());
            let todo = pending.one(transaction).await?;
            todo.ok_or_else(|| Error::not_found(""))
        })
        .await?;
    load_written(backend, &space.caller, todo).await
}
