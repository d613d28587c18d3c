//! Merge requests as planning resources: create, read, update, close and list.

mod auto_merge;
mod branch_heads;
mod changes;
pub mod closing_issues;
mod create;
mod delete;
mod drafts;
mod edit;
pub(crate) mod events;
pub(crate) mod head_pipeline;
mod head_refs;
pub mod list;
mod merge;
mod mergeability;
mod messages;
mod post_merge;
mod rebase;
mod recounting;
mod ref_updates;
mod row;
pub mod subscriptions;
pub mod time_tracking;

use sea_orm::{ConnectionTrait, QueryFilter};

pub use crate::review::merge_requests::auto_merge::{cancel, merge_waiting};
pub use crate::review::merge_requests::merge::{Acceptance, accept};
pub use crate::review::merge_requests::post_merge::{run_finish_merge, run_keep_merge_request};
pub use crate::review::merge_requests::rebase::rebase;
pub use changes::{changes, commits};
pub use create::{NewMergeRequest, create};
pub use delete::delete;
pub use drafts::is_draft;
pub use edit::{Change, edit};
pub use list::{Filter, Order, list};
pub use recounting::recount_closing;
pub use ref_updates::MergeRequestUpdates;
pub(crate) use row::rows;
pub use row::{Details, Row, Wanted, read};

use storage::entities::{merge_requests, now};

use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};

/// Returns a merge request of a project by its IID.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<merge_requests::Model> {
    let found = merge_requests::by_iid(access.project.id, iid)
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
pub(crate) async fn lock(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<merge_requests::Model> {
    let found = find(db, access, iid).await?;
    let locked = merge_requests::lock(db, found.id).await?;
    locked.ok_or_else(|| Error::not_found("MergeRequest"))
}

/// Returns whether merge requests are enabled for the caller, who can see the project.
pub(crate) fn are_there(access: &ProjectAccess) -> bool {
    let (effective_access, project) = (access.effective_access(), &access.project);
    effective_access.has_feature(project.merge_requests_access_level)
        && effective_access.can_read_code(project.repository_access_level, project.visibility)
}
