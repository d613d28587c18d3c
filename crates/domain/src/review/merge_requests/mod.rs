//! Merge requests: their attributes, lists, mergeability and merges.

pub(crate) mod approval_policy;
mod auto_merge;
mod branch_heads;
pub mod closing_issues;
mod create;
mod delete;
mod detailed_status;
mod diff;
mod drafts;
pub(crate) mod head_pipeline;
mod head_refs;
mod joined_row;
pub mod list;
mod merge;
mod mergeability;
mod messages;
mod post_merge;
mod push_creation;
mod rebase;
mod ref_updates;
mod row;
pub mod subscriptions;
mod update;
mod versions;

use sea_orm::ConnectionTrait;

pub use crate::review::merge_requests::auto_merge::{cancel_auto_merge, run_auto_merge};
pub(crate) use crate::review::merge_requests::merge::head_mismatch;
pub use crate::review::merge_requests::merge::{MergeParams, accept};
pub use crate::review::merge_requests::post_merge::{run_post_merge, run_update_head_ref};
pub use crate::review::merge_requests::rebase::rebase;
pub use create::{NewMergeRequest, create};
pub use delete::delete;
pub use detailed_status::DetailedMergeStatus;
pub use diff::{get_changes, list_commits, list_diffs, open_raw_diff};
pub use drafts::is_draft;
pub use list::{ApprovalFilter, DeploymentFilter, MergeRequestFilter, ReviewerFilter, list};
pub use mergeability::merge_ref::update_merge_ref;
pub use push_creation::run_create_merge_request;
pub use ref_updates::MergeRequestUpdates;
pub(crate) use row::with_associations;
pub use row::{MergeRequestDetail, MergeRequestExtras, MergeRequestInclude, get};
pub use update::{MergeRequestUpdate, update};
pub use versions::by_commit::list_by_commit;
pub use versions::collection::sweep as sweep_versions;
pub use versions::pipelines::{create_pipeline, list_pipelines};
pub use versions::{VersionDetail, get_version, list_versions};

use storage::entities::merge_requests;

use crate::identity::access::ProjectAccess;
use crate::kernel::error::Result;
use crate::planning::issuables;

/// Returns a merge request of a project by its IID.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<merge_requests::Model> {
    issuables::find(db, access, iid).await
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
    issuables::lock(db, access, iid).await
}

/// Returns whether merge requests are enabled for the caller, who can see the project.
pub(crate) fn is_enabled(access: &ProjectAccess) -> bool {
    let (effective_access, project) = (access.effective_access(), &access.project);
    effective_access.has_feature(project.merge_requests_access_level)
        && effective_access.can_read_code(project.repository_access_level, project.visibility)
}
