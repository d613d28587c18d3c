//! Issues of projects.

mod create;
mod delete;
mod events;
pub mod links;
pub mod list;
mod metadata;
mod move_issue;
mod row;
mod statistics;
pub mod subscriptions;
mod update;

use sea_orm::{ConnectionTrait, QueryFilter};

pub use crate::planning::issues::move_issue::move_to;
pub use create::{NewIssue, create};
pub use delete::delete;
pub use list::{IssueFilter, IssueOrder, list};
pub use metadata::IssueMetadata;
pub use row::{IssueDetail, get, get_by_id};
pub(crate) use row::{decorate, with_associations};
pub use statistics::{StateCounts, count_by_state};
pub use update::{Closer, IssueUpdate, update};
pub(crate) use update::{close_by_reference, closed_by_merge_request};

use storage::entities::issues;

use crate::identity::access::ProjectAccess;
use crate::kernel::error::Result;
use crate::kernel::policy::Role;
use crate::planning::issuables;

/// Finds an issue of a project by IID, if the caller can see it.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<issues::Model> {
    issuables::find(db, access, iid).await
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
    issuables::lock(db, access, iid).await
}

/// Returns whether the caller, who can see the issue, may edit it.
///
/// # Errors
/// Returns an error if the database fails.
async fn can_edit(db: &impl ConnectionTrait, access: &ProjectAccess, issue: &issues::Model) -> Result<bool> {
    let Some(user) = access.caller.as_user() else {
        return Ok(false);
    };
    if access.has_role(Role::Reporter) || issue.author_id == Some(user.id) {
        return Ok(true);
    }
    let assigned = issues::by_iid(access.project.id, issue.iid).filter(issues::assigned_to(user.id));
    Ok(assigned.one(db).await?.is_some())
}
