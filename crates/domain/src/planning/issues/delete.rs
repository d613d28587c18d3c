//! Deletes issues.

use sea_orm::EntityTrait;
use storage::entities::events::EventAction;
use storage::entities::issues;

use super::{find, lock};
use crate::activity::events::{self, NewEvent};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;
use crate::planning::issuables::events::target;
use crate::planning::issues::events::{add_to_open_issues, open_count};

/// Deletes an issue with its related rows. Its IID is not reused.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist. Returns `Error::PreconditionFailed` if it changed
/// after `unmodified_since`.
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
            let issue = lock(transaction, access, iid).await?;
            preconditions::check_unmodified_since(unmodified_since, issue.updated_at)?;
            issues::Entity::delete_by_id(issue.id).exec(transaction).await?;
            add_to_open_issues(transaction, issue.project_id, -open_count(&issue)).await?;
            let event = NewEvent {
                target: Some(target(&issue)),
                ..NewEvent::new(access.project.id, author, EventAction::Destroyed)
            };
            events::record(transaction, event).await?;
            Ok::<_, Error>(())
        })
        .await
}
