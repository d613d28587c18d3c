//! Deletes merge requests.

use sea_orm::EntityTrait;
use storage::entities::events::EventAction;
use storage::entities::merge_requests;

use super::{find, lock};
use crate::activity::events::{self, NewEvent};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;
use crate::planning::issuables::events::target;
use crate::review::merge_requests::closing_issues::{closed_issue_ids, lock_closed_by, update_counts};
use crate::review::merge_requests::head_refs;

/// Deletes a merge request with all its data. Its IID is not used again.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist, or `PreconditionFailed` if it was modified after
/// the given date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let author = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    preconditions::check_unmodified_since(unmodified_since, found.updated_at)?;
    backend
        .database
        .transaction(async |transaction| {
            lock_closed_by(transaction, found.id).await?;
            let merge_request = lock(transaction, access, iid).await?;
            preconditions::check_unmodified_since(unmodified_since, merge_request.updated_at)?;
            let issue_ids = closed_issue_ids(transaction, merge_request.id).await?;
            merge_requests::Entity::delete_by_id(merge_request.id)
                .exec(transaction)
                .await?;
            update_counts(transaction, issue_ids.into_iter().collect()).await?;
            let event = NewEvent {
                target: Some(target(&merge_request)),
                ..NewEvent::new(access.project.id, author, EventAction::Destroyed)
            };
            events::record(transaction, event).await?;
            Ok::<_, Error>(())
        })
        .await?;
    let repository = head_refs::repository(backend, access.project.id);
    if let Err(error) = repository.delete_merge_request_refs(iid).await {
        // No row refers to the head any more; its commits merely remain for a while.
        tracing::warn!(iid, %error, "failed to delete the refs of a merge request");
    }
    Ok(())
}
