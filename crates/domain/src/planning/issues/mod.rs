//! Issues of projects.

mod create;
mod delete;
mod edit;
pub(crate) mod events;
pub mod list;
mod metadata;
mod move_issue;
mod participants;
mod row;
pub mod subscriptions;
pub mod time_tracking;

use sea_orm::{ConnectionTrait, QueryFilter};

pub use crate::planning::issues::move_issue::move_to;
pub use create::{NewIssue, create};
pub use delete::delete;
pub(crate) use edit::close_from;
pub use edit::{Change, Closer, edit};
pub use list::{Filter, Order, list};
pub use metadata::Metadata;
pub use participants::participants;
pub use row::{Row, read};
pub(crate) use row::{decorate, rows, seen_by};

use storage::entities::{issues, now};

use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// Finds an issue of a project by IID, if the caller can see it.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<issues::Model> {
    let found = issues::by_iid(access.project.id, iid)
        .filter(issues::visible(access.caller.viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(|| Error::not_found("Issue"))
}

/// Like [`find`], for a change: locks the issue until the transaction ends.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist, was deleted meanwhile, or the caller cannot see it.
pub(crate) async fn lock(
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
    if access.has_role(Role::Reporter) || issue.author_id == Some(user.id) {
        return Ok(true);
    }
    let assigned = issues::by_iid(access.project.id, issue.iid).filter(issues::assigned_to(user.id));
    Ok(assigned.one(db).await?.is_some())
}
