//! Notes on issues, merge requests, snippets and epics (specification 2.4 and 4.3).

mod changes;
mod listing;
pub mod noteable;
mod removal;
pub mod system;

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, Select};

pub use changes::{NewNote, Posted, create, delete, edit};
pub use listing::{Filter, Row, list, read, read_with};
pub use noteable::{Key, Noteable};
pub(in crate::services) use removal::lock_all;
pub use removal::remove_all_of;

use storage::entities::notes::{self, Column, Entity, Model};
use storage::entities::now;

use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::places::Place;

/// The notes on something that the caller may see. Those that name what the caller may not see are not counted either.
pub(in crate::services) fn visible(place: &Place, on: &Noteable) -> Select<Entity> {
    let (viewer, today) = (place.caller.viewer(), now().date_naive());
    let all = Entity::find()
        .filter(on.parent().holds())
        .filter(notes::naming_visible(viewer, today));
    if place.holds(Role::Reporter) {
        return all;
    }
    let own = place.caller.as_user().map(|user| Column::AuthorId.eq(user.id));
    let seen = Condition::any()
        .add(Column::Confidential.eq(false))
        .add_option(own);
    all.filter(seen)
}

/// Finds a note on something, as far as the caller may see it.
///
/// # Errors
/// 404, also for a note on something else.
pub(in crate::services) async fn find(
    db: &impl ConnectionTrait,
    place: &Place,
    on: &Noteable,
    id: i64,
) -> Result<Model> {
    let found = visible(place, on).filter(Column::Id.eq(id)).one(db).await?;
    found.ok_or_else(|| Error::not_found(""))
}
