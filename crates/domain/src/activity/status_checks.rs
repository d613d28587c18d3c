//! Outbox of requests to external status checks, inserted in the transaction of the event.

use sea_orm::{ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::clock::scheduling_time;
use storage::entities::{events, status_check_deliveries, status_checks};
use storage::jobs;

use super::outbox::uuid;
use crate::activity::jobs::deliver_status_check::DeliverStatusCheck;
use crate::kernel::error::{Error, Result};
use crate::kernel::patterns::matches_pattern;

/// A merge request that status checks receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckedMergeRequest<'a> {
    /// The ID.
    pub id: i64,
    /// The target project, which has the status checks.
    pub project_id: i64,
    /// The target branch, which selects the status checks.
    pub target_branch: &'a str,
    /// The head of the source branch.
    pub head_sha: &'a str,
}

/// Inserts a request to every status check that applies to a merge request.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn enqueue(
    transaction: &DatabaseTransaction,
    event: &events::Model,
    merge_request: CheckedMergeRequest<'_>,
) -> Result<()> {
    let named = status_checks::with_branch_names(transaction, merge_request.project_id).await?;
    let mut ids: Vec<i64> = named
        .into_iter()
        .filter(|(_, branch)| applies_to(branch.as_deref(), merge_request.target_branch))
        .map(|(id, _)| id)
        .collect();
    // Several branches of a check can match. The IDs are sorted.
    ids.dedup();
    for id in ids {
        enqueue_one(transaction, event, merge_request, id).await?;
    }
    Ok(())
}

/// Inserts a request to one status check.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn enqueue_one(
    transaction: &DatabaseTransaction,
    event: &events::Model,
    merge_request: CheckedMergeRequest<'_>,
    status_check_id: i64,
) -> Result<()> {
    let at = scheduling_time();
    let row = status_check_deliveries::ActiveModel {
        status_check_id: Set(status_check_id),
        merge_request_id: Set(merge_request.id),
        event_id: Set(event.id),
        sha: Set(merge_request.head_sha.to_owned()),
        uuid: Set(uuid()),
        attempts: Set(0),
        next_attempt_at: Set(at),
        created_at: Set(at),
        ..Default::default()
    };
    status_check_deliveries::Entity::insert(row)
        .exec_without_returning(transaction)
        .await?;
    let job = DeliverStatusCheck { status_check_id };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Returns whether a status check with this protected branch applies to a target branch. A check without branches applies to
/// all.
fn applies_to(protected: Option<&str>, target: &str) -> bool {
    protected.is_none_or(|name| matches_pattern(name, target))
}

#[cfg(test)]
mod tests {
    use super::applies_to;

    #[test]
    fn status_check_applies_to_all_branches_or_to_those_of_its_patterns() {
        assert!(applies_to(None, "main") && applies_to(Some("main"), "main"));
        assert!(applies_to(Some("release/*"), "release/1") && !applies_to(Some("release/*"), "main"));
    }
}
