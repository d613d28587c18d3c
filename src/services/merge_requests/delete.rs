//! Removing a merge request.

use sea_orm::EntityTrait;
use storage::entities::events::Action;
use storage::entities::merge_requests;

use super::closing::{closed, recount};
use super::telling::target;
use super::{find, heads, lock};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::events::{self, NewEvent};
use crate::services::preconditions;

/// Removes a merge request with all that belongs to it. Its number is not given out again.
///
/// # Errors
/// 404, and 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let author = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    preconditions::unmodified_since(unmodified_since, found.updated_at)?;
    backend
        .database
        .transaction(async |transaction| {
            let merge_request = lock(transaction, access, iid).await?;
            preconditions::unmodified_since(unmodified_since, merge_request.updated_at)?;
            let closed = closed(transaction, merge_request.id).await?;
            merge_requests::Entity::delete_by_id(merge_request.id)
                .exec(transaction)
                .await?;
            recount(transaction, closed.into_iter().collect()).await?;
            let event = NewEvent {
                target: Some(target(&merge_request)),
                ..NewEvent::new(access.project.id, author, Action::Destroyed)
            };
            events::record(transaction, event).await?;
            Ok::<_, Error>(())
        })
        .await?;
    let repository = heads::repository(backend, access.project.id);
    if let Err(error) = repository.forget_merge_request(iid).await {
        // Nothing leads there any more; its commits stay a while longer.
        tracing::warn!(iid, %error, "failed to release the head of a deleted merge request");
    }
    Ok(())
}
