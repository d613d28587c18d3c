//! Lookup of notes that are visible to the caller.

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, Select};
use storage::entities::notes::{self, Column, Entity, Model};
use storage::entities::now;

use crate::discussion::noteable::Noteable;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// Selects the notes on a noteable that are visible to the caller. Notes that reference a noteable that is
/// not visible are excluded, also from counts.
pub(crate) fn visible(space: &SpaceAccess, noteable: &Noteable) -> Select<Entity> {
    let (viewer, today) = (space.caller.viewer(), now().date_naive());
    let all = Entity::find()
        .filter(noteable.id().condition())
        .filter(notes::visible_cross_references(viewer, today));
    if space.has_role(Role::Reporter) {
        return all;
    }
    let own = space.caller.as_user().map(|user| Column::AuthorId.eq(user.id));
    let visible = Condition::any()
        .add(Column::Confidential.eq(false))
        .add_option(own);
    all.filter(visible)
}

/// Returns a note on a noteable.
///
/// # Errors
/// Returns `NotFound` if the note does not exist, belongs to another noteable or is not visible to the
/// caller.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    noteable: &Noteable,
    id: i64,
) -> Result<Model> {
    let note = visible(space, noteable).filter(Column::Id.eq(id)).one(db).await?;
    note.ok_or_else(|| Error::not_found(""))
}
