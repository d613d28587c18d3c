//! Notes on issues, merge requests, snippets and epics (specification 2.4 and 4.3).

mod changes;
mod listing;
pub mod noteable;
mod removal;
pub mod system;

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, Select};

pub use changes::{NewNote, Posted, create, delete, edit};
pub use listing::{Filter, Row, list, read};
pub use noteable::{Key, Noteable};
pub use removal::remove_all_of;

use crate::entities::notes::{Column, Entity, Model};
use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::access::ProjectAccess;

/// The notes on something that the caller may see.
pub(in crate::services) fn visible(access: &ProjectAccess, on: &Noteable) -> Select<Entity> {
    let all = Entity::find().filter(on.parent().holds());
    if access.holds(Role::Reporter) {
        return all;
    }
    let own = access.caller.as_user().map(|user| Column::AuthorId.eq(user.id));
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
    access: &ProjectAccess,
    on: &Noteable,
    id: i64,
) -> Result<Model> {
    let found = visible(access, on).filter(Column::Id.eq(id)).one(db).await?;
    found.ok_or_else(|| Error::not_found(""))
}
