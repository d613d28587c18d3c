//! Merge requests as planning resources: create, read, update, close and list.

mod automatic;
mod changes;
pub mod closing;
mod create;
mod delete;
mod drafts;
mod edit;
mod finishing;
pub(in crate::services) mod head_pipeline;
mod heads;
pub mod list;
mod mergeability;
mod merging;
mod messages;
mod moves;
mod rebasing;
mod recounting;
mod row;
pub mod subscriptions;
pub(in crate::services) mod telling;
pub mod times;
mod tips;

use sea_orm::{ConnectionTrait, QueryFilter};

pub use automatic::{cancel, merge_waiting};
pub use changes::{changes, commits};
pub use create::{NewMergeRequest, create};
pub use delete::delete;
pub use drafts::is_draft;
pub use edit::{Change, StateEvent, edit};
pub use finishing::{finish, refresh};
pub use list::{Filter, Order, list};
pub use merging::{Acceptance, accept};
pub(in crate::services) use moves::{Consequences, apply, of_moved};
pub use rebasing::rebase;
pub use recounting::recount_closing;
pub(in crate::services) use row::rows;
pub use row::{Details, Row, Wanted, read};

use storage::entities::{merge_requests, now};

use crate::error::{Error, Result};
use crate::services::access::ProjectAccess;

/// Returns a merge request of a project by its IID.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub(in crate::services) async fn find(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<merge_requests::Model> {
    let found = merge_requests::numbered(access.project.id, iid)
        .filter(merge_requests::visible(
            access.caller.viewer(),
            now().date_naive(),
        ))
        .one(db)
        .await?;
    found.ok_or_else(|| Error::not_found("MergeRequest"))
}

/// As [`find`], but locks the row until the transaction ends.
///
/// # Errors
/// Returns `NotFound` also if the merge request was deleted concurrently.
pub(in crate::services) async fn lock(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<merge_requests::Model> {
    let found = find(db, access, iid).await?;
    let locked = merge_requests::lock(db, found.id).await?;
    locked.ok_or_else(|| Error::not_found("MergeRequest"))
}

/// Returns whether merge requests are enabled for the caller, who can see the project.
pub(in crate::services) fn are_there(access: &ProjectAccess) -> bool {
    let (standing, project) = (access.standing(), &access.project);
    standing.has(project.merge_requests_access_level)
        && standing.reads_code(project.repository_access_level, project.visibility)
}
