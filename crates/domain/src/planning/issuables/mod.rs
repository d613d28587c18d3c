//! Shared parts of issues and merge requests: attributes, events, subscriptions, time tracking and lists.
//! Differences are in [`IssuableKind`] or in their own modules.

mod associations;
mod columns;
pub mod events;
pub mod list;
mod metadata;
mod participants;
pub mod resource_events;
pub mod subscriptions;
pub mod task_list;
pub mod time_tracking;

use sea_orm::ConnectionTrait;

pub(crate) use associations::{AssociationRequest, Associations, Issuable, WithMilestone, with_milestones};
pub(crate) use columns::IssuableRow;
pub use list::{IssuableConditions, IssuableFilter, IssuableOrder, IssuableScope, ListScope};
pub use metadata::{IssuableMetadata, merge_assignee_ids};
pub(crate) use metadata::{MetadataEffects, PreparedMetadata, assignable_users};
pub use participants::list_participants;

use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
pub use storage::entities::issuables::IssuableKind;

/// Returns the title as it is stored.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank.
pub(crate) fn check_title(title: &str) -> Result<&str> {
    let title = title.trim();
    if title.is_empty() {
        return Err(Error::attribute("title", "can't be blank"));
    }
    Ok(title)
}

/// Finds an issue or merge request of a project by IID, if the caller can see it.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub(crate) async fn find<T: IssuableRow>(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<T> {
    let found = T::find_visible(db, access.project.id, iid, access.caller.viewer()).await?;
    found.ok_or_else(|| not_found(T::KIND))
}

/// Like [`find`], with the milestone.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub(crate) async fn find_with_milestone<T: IssuableRow>(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<WithMilestone<T>> {
    let found = T::find_visible_with_milestone(db, access.project.id, iid, access.caller.viewer()).await?;
    found.ok_or_else(|| not_found(T::KIND))
}

/// Like [`find`], for a change: locks the row until the transaction ends.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist, was deleted meanwhile, or the caller cannot see it.
pub(crate) async fn lock<T: IssuableRow>(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
) -> Result<T> {
    let found: T = find(db, access, iid).await?;
    let locked = T::lock_by_id(db, found.id()).await?;
    locked.ok_or_else(|| not_found(T::KIND))
}

fn not_found(kind: IssuableKind) -> Error {
    Error::not_found(match kind {
        IssuableKind::Issue => "Issue",
        IssuableKind::MergeRequest => "MergeRequest",
    })
}
