//! Push events: one for each branch or tag, or one for many refs updated together.

use futures_util::future::BoxFuture;
use git::{CommitSelection, Oid};
use sea_orm::DatabaseTransaction;
use storage::database::Database;
use storage::entities::project_hooks::HookEvent;
use storage::jobs;

use crate::activity::events::{self, EventAction, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::activity::push_data::{MAX_COUNTED_COMMITS, PushAction, PushData, RefType};
use crate::code::jobs::process_commit_messages::{PendingMessages, ProcessCommitMessages};
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{PlannedEffect, RefChange, RefUpdate, RefUpdateListener, UpdatedRefs};
use crate::kernel::text::references::has_references;

/// Maximum number of branches, or tags, updated together that each get an event.
const MAX_SEPARATE_EVENTS: usize = 3;

/// Records events for ref updates.
pub struct PushEvents;

impl RefUpdateListener for PushEvents {
    fn plan<'a>(
        &'a self,
        _: &'a Database,
        refs: &'a UpdatedRefs<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn PlannedEffect>>> {
        Box::pin(async move { Ok(Box::new(plan(refs).await) as Box<dyn PlannedEffect>) })
    }
}

/// Events and pending commit messages of a push.
#[derive(Debug, Default)]
struct PlannedEvents {
    /// The events.
    events: Vec<NewEvent>,
    /// Commits pushed to branches, whose messages may contain references.
    pending: Vec<PendingMessages>,
}

impl PlannedEffect for PlannedEvents {
    fn apply<'a>(
        self: Box<Self>,
        transaction: &'a DatabaseTransaction,
        update: &'a RefUpdate,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for event in self.events {
                events::insert(transaction, event).await?;
            }
            match (update.user_id, self.pending.is_empty()) {
                (Some(user_id), false) => {
                    let job = ProcessCommitMessages {
                        project_id: update.project_id,
                        user_id,
                        unread: self.pending,
                    };
                    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
                }
                _ => Ok(()),
            }
        })
    }
}

/// Returns the effects of refs updated together. Errors of Git are logged and details left out, because the
/// push has already happened. If many branches are updated, only the commits of the default branch are
/// processed.
async fn plan(refs: &UpdatedRefs<'_>) -> PlannedEvents {
    let mut planned = PlannedEvents::default();
    let events = &mut planned.events;
    for (prefix, ref_type) in [("refs/heads/", RefType::Branch), ("refs/tags/", RefType::Tag)] {
        let changes: Vec<(&str, &RefChange)> = refs
            .changes
            .iter()
            .filter(|change| change.old != change.new)
            .filter_map(|change| Some((change.reference.strip_prefix(prefix)?, change)))
            .collect();
        if changes.len() > MAX_SEPARATE_EVENTS {
            for action in [PushAction::Created, PushAction::Pushed, PushAction::Removed] {
                let count = changes
                    .iter()
                    .filter(|(_, change)| push_action(change) == action)
                    .count();
                if count > 0 {
                    events.extend(push_event(refs, group_push_data(ref_type, action, count), None));
                }
            }
            let is_default = |(name, _): &&(&str, &RefChange)| Some(*name) == refs.default_branch;
            if let (RefType::Branch, Some((name, change))) = (ref_type, changes.iter().find(is_default)) {
                planned
                    .pending
                    .extend(branch_push_data(refs, name, change).await.1);
            }
            continue;
        }
        for (name, change) in changes {
            let data = match ref_type {
                RefType::Branch => {
                    let (data, pending) = branch_push_data(refs, name, change).await;
                    planned.pending.extend(pending);
                    data
                }
                RefType::Tag => tag_push_data(refs, name, change).await,
            };
            let target = match ref_type {
                RefType::Branch => WebhookTarget {
                    kind: HookEvent::Push,
                    branch: Some(name.to_owned()),
                },
                RefType::Tag => WebhookTarget {
                    kind: HookEvent::TagPush,
                    branch: None,
                },
            };
            events.extend(push_event(refs, data, Some(target)));
        }
    }
    planned
}

fn push_action(change: &RefChange) -> PushAction {
    match (&change.old, &change.new) {
        (None, _) => PushAction::Created,
        (_, None) => PushAction::Removed,
        _ => PushAction::Pushed,
    }
}

fn group_push_data(ref_type: RefType, action: PushAction, count: usize) -> PushData {
    PushData {
        commit_count: 0,
        action,
        ref_type,
        commit_from: None,
        commit_to: None,
        name: None,
        commit_title: None,
        ref_count: Some(count),
        base: None,
    }
}

fn push_event(
    refs: &UpdatedRefs<'_>,
    data: PushData,
    webhook_target: Option<WebhookTarget>,
) -> Option<NewEvent> {
    Some(NewEvent {
        project_id: Some(refs.project.id),
        author_id: refs.update.user_id,
        action: EventAction::Pushed,
        target: None,
        data: Some(serde_json::to_string(&data).ok()?),
        webhook_target,
    })
}

fn ref_push_data(ref_type: RefType, name: &str, change: &RefChange) -> PushData {
    PushData {
        commit_count: 0,
        action: push_action(change),
        ref_type,
        commit_from: change.old.clone(),
        commit_to: change.new.clone(),
        name: Some(name.to_owned()),
        commit_title: None,
        ref_count: None,
        base: None,
    }
}

async fn branch_push_data(
    refs: &UpdatedRefs<'_>,
    name: &str,
    change: &RefChange,
) -> (PushData, Option<PendingMessages>) {
    let mut data = ref_push_data(RefType::Branch, name, change);
    let Some(tip) = change.new.as_deref().and_then(oid) else {
        return (data, None);
    };
    data.base = match (&change.old, refs.default_branch) {
        (Some(old), _) => Some(old.clone()),
        (None, Some(default)) if default != name => {
            let default = refs.repository.branch(default).await;
            default.ok().map(|branch| branch.commit.to_string())
        }
        (None, _) => None,
    };
    let base = data.base.as_deref().and_then(oid);
    let newest = ok_or_log(refs.repository.commit(tip).await);
    data.commit_count = match (&newest, base) {
        // Most pushes contain one commit, which needs no walk through history.
        (Some(commit), Some(base)) if commit.parents == [base] => 1,
        _ => ok_or_log(
            refs.repository
                .count_commits(between(base, tip), MAX_COUNTED_COMMITS)
                .await,
        )
        .unwrap_or(0),
    };
    let no_references = match data.commit_count {
        0 => true,
        1 => newest
            .as_ref()
            .is_some_and(|commit| !has_references(&commit.message)),
        _ => false,
    };
    data.commit_title = newest.map(|commit| commit.title().to_owned());
    let pending = PendingMessages {
        branch: name.to_owned(),
        base: data.base.clone(),
        tip: tip.to_string(),
    };
    (data, (!no_references).then_some(pending))
}

async fn tag_push_data(refs: &UpdatedRefs<'_>, name: &str, change: &RefChange) -> PushData {
    let mut data = ref_push_data(RefType::Tag, name, change);
    let Some(target) = change.new.as_deref().and_then(oid) else {
        return data;
    };
    let tag = ok_or_log(refs.repository.tag_at(name, target).await);
    // A tag may point to an object that is not a commit.
    if let Some(commit) = tag.and_then(|tag| tag.commit)
        && let Some(commit) = ok_or_log(refs.repository.commit(commit).await)
    {
        data.commit_count = 1;
        data.commit_title = Some(commit.title().to_owned());
    }
    data
}

/// Selects the commits of `tip` that `base` does not contain.
#[must_use]
pub fn between(base: Option<Oid>, tip: Oid) -> CommitSelection {
    CommitSelection {
        tips: vec![tip],
        hidden: base.into_iter().collect(),
        ..CommitSelection::default()
    }
}

/// Parses an object ID.
#[must_use]
pub fn oid(text: &str) -> Option<Oid> {
    text.parse().ok()
}

fn ok_or_log<T>(result: git::Result<T>) -> Option<T> {
    result
        .inspect_err(|error| tracing::warn!(%error, "failed to list pushed commits"))
        .ok()
}
