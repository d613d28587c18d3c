//! Creation of a to-do item by its user.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::todos::{Column, Entity, TodoAction, TodoState};

use super::row::{self, Row};
use crate::discussion::noteable::{Key, Noteable};
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
pub async fn mark(backend: &Backend, place: &SpaceAccess, key: Key) -> Result<Row> {
    let user = place.caller.signed_in()?.id;
    if matches!(key, Key::MergeRequest(_)) && !merge_requests::is_enabled(&place.project_access()?) {
        return Err(Error::forbidden());
    }
    let on = Noteable::find(backend.database.read(), place, key).await?;
    let target = on.id().todo_target().ok_or_else(|| Error::not_found(""))?;
    let cause = TodoCause {
        scope: place.scope(),
        author_id: Some(user),
        note_id: None,
    };
    let created = backend
        .database
        .transaction(async |transaction| {
            Noteable::lock(transaction, place, key).await?;
            if todo_writer::create(transaction, target, cause, vec![(user, TodoAction::Marked)]).await? == 0 {
                return Err(Error::NotModified);
            }
            let pending = Entity::find()
                .filter(Column::UserId.eq(user))
                .filter(Column::State.eq(TodoState::Pending))
                .filter(target.condition());
            let created = pending.one(transaction).await?;
            created.ok_or_else(|| Error::not_found(""))
        })
        .await?;
    row::of_one(backend, place.caller.viewer(), created).await
}
