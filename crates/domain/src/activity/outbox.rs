//! Webhook outbox: deliveries of an event, inserted in the transaction of the event.

use sea_orm::{ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::entities::hook_deliveries::{self, DeliveryState};
use storage::entities::project_hooks::{self, BranchFilterStrategy, HookEvent};
use storage::entities::{events, now};
use storage::jobs;

use crate::activity::jobs::deliver_webhook::DeliverWebhook;
use crate::kernel::error::{Error, Result};
use crate::kernel::patterns::matches_pattern;
use crate::kernel::text::re2::SearchRegex;

/// Selects the webhooks that receive an event.
#[derive(Debug, Clone)]
pub struct WebhookTarget {
    /// The kind of event that webhooks subscribe to.
    pub kind: HookEvent,
    /// The branch, for webhooks that filter branches.
    pub branch: Option<String>,
}

/// Inserts a delivery for every webhook that subscribes to an event. Disabled webhooks get deliveries as
/// well, and send them once they are enabled again.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn enqueue(
    transaction: &DatabaseTransaction,
    event: &events::Model,
    target: &WebhookTarget,
) -> Result<()> {
    let Some(project_id) = event.project_id else {
        return Ok(());
    };
    let mut hooks = project_hooks::subscribed_to(transaction, project_id, target.kind).await?;
    hooks.retain(|hook| {
        accepts_branch(
            hook.branch_filter_strategy,
            hook.push_events_branch_filter.as_deref(),
            target.branch.as_deref(),
        )
    });
    if hooks.is_empty() {
        return Ok(());
    }
    let at = now();
    let rows = hooks.iter().map(|hook| hook_deliveries::ActiveModel {
        hook_id: Set(hook.id),
        event_id: Set(Some(event.id)),
        uuid: Set(uuid()),
        kind: Set(target.kind),
        url: Set(hook.url.clone()),
        state: Set(DeliveryState::Pending),
        next_attempt_at: Set(at),
        created_at: Set(at),
        ..Default::default()
    });
    hook_deliveries::Entity::insert_many(rows)
        .exec_without_returning(transaction)
        .await?;
    for hook in hooks.iter().filter(|hook| hook.disabled_at.is_none()) {
        let job = DeliverWebhook { hook_id: hook.id };
        jobs::enqueue(transaction, &job).await.map_err(Error::internal)?;
    }
    Ok(())
}

/// Returns whether a webhook with this branch filter receives an event of a branch. Events without a branch
/// are not filtered.
fn accepts_branch(strategy: BranchFilterStrategy, filter: Option<&str>, branch: Option<&str>) -> bool {
    let (Some(filter), Some(branch)) = (filter.filter(|filter| !filter.is_empty()), branch) else {
        return true;
    };
    match strategy {
        BranchFilterStrategy::AllBranches => true,
        BranchFilterStrategy::Wildcard => matches_pattern(filter, branch),
        // Expressions are compiled before they are stored.
        BranchFilterStrategy::Regex => {
            SearchRegex::compile(filter, false).is_ok_and(|expression| expression.is_in(branch))
        }
    }
}

/// Returns a unique ID for a delivery.
pub(crate) fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::BranchFilterStrategy::{AllBranches, Regex, Wildcard};

    fn accepts_branch(filter: Option<&str>, branch: Option<&str>) -> bool {
        super::accepts_branch(Wildcard, filter, branch)
    }

    #[test]
    fn strategy_selects_the_meaning_of_the_filter() {
        for (strategy, filter, branch, accepted) in [
            (Regex, "^(main|release/.+)$", "release/1", true),
            (Regex, "^(main|release/.+)$", "mainly", false),
            (Regex, "ai", "main", true),
            (Regex, "(", "main", false),
            (Regex, "", "main", true),
            (AllBranches, "main", "other", true),
            (Wildcard, "m.*n", "main", false),
        ] {
            let found = super::accepts_branch(strategy, Some(filter), Some(branch));
            assert_eq!(found, accepted, "{filter} {branch}");
        }
        assert!(super::accepts_branch(Regex, Some("x"), None));
    }

    #[test]
    fn branch_filter_matches_name_or_wildcard() {
        assert!(
            accepts_branch(None, Some("main"))
                && accepts_branch(Some(""), Some("main"))
                && accepts_branch(Some("main"), None)
        );
        assert!(accepts_branch(Some("main"), Some("main")) && !accepts_branch(Some("main"), Some("mainly")));
        assert!(
            accepts_branch(Some("feature/*"), Some("feature/x/y"))
                && !accepts_branch(Some("feature/*"), Some("feature"))
        );
        assert!(
            accepts_branch(Some("*-stable"), Some("1-stable"))
                && !accepts_branch(Some("*-stable"), Some("1-unstable-2"))
        );
    }
}
