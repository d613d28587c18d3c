//! Issues of projects.

mod create;
mod delete;
mod edit;
pub mod list;
mod metadata;
mod moving;
mod participants;
mod row;
pub mod subscriptions;
pub(in crate::services) mod telling;
pub mod times;

use sea_orm::{ConnectionTrait, QueryFilter};

pub use create::{NewIssue, create};
pub use delete::delete;
pub(in crate::services) use edit::close_from;
pub use edit::{Change, Closer, StateEvent, edit};
pub use list::{Filter, Order, list};
pub use metadata::Metadata;
pub use moving::move_to;
pub use participants::participants;
pub use row::{Row, read};
pub(in crate::services) use row::{decorate, rows, seen_by};

use storage::entities::{issues, now};

use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::access::ProjectAccess;

/// Finds an issue of a project by IID, if the caller can see it.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub(in crate::services) async fn find(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<issues::Model> {
    let found = issues::numbered(access.project.id, iid)
        .filter(issues::visible(access.caller.viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(|| Error::not_found("Issue"))
}

/// Like [`find`], for a change: locks the issue until the transaction ends.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist, was deleted meanwhile, or the caller cannot see it.
pub(in crate::services) async fn lock(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<issues::Model> {
    let found = find(db, access, iid).await?;
    let locked = issues::lock(db, found.id).await?;
    locked.ok_or_else(|| Error::not_found("Issue"))
}

/// Returns whether the caller, who can see the issue, may edit it.
///
/// # Errors
/// Returns an error if the database fails.
async fn may_edit(db: &impl ConnectionTrait, access: &ProjectAccess, issue: &issues::Model) -> Result<bool> {
    let Some(user) = access.caller.as_user() else {
        return Ok(false);
    };
    if access.holds(Role::Reporter) || issue.author_id == Some(user.id) {
        return Ok(true);
    }
    let assigned = issues::numbered(access.project.id, issue.iid).filter(issues::assigned_to(user.id));
    Ok(assigned.one(db).await?.is_some())
}
