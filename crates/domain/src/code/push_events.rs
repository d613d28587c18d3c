//! Push events: one for each branch or tag, or one for many refs updated together.

use futures_util::future::BoxFuture;
use git::{CommitSelection, Oid};
use sea_orm::DatabaseTransaction;
use storage::database::Database;
use storage::entities::project_hooks::HookEvent;
use storage::jobs;

use crate::activity::events::{self, EventAction, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::activity::push_data::{COUNTED, Change, PushData, RefType};
use crate::code::jobs::read_messages::{ReadMessages, Unread};
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{PlannedEffect, RefChange, RefUpdate, RefUpdateListener, UpdatedRefs};
use crate::kernel::text::references::has_references;

/// Maximum branches, or tags, updated together that get an event each.
const TOLD_SINGLY: usize = 3;

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

/// Effects of a push.
#[derive(Debug, Default)]
struct PlannedEvents {
    /// The events.
    events: Vec<NewEvent>,
    /// Commits pushed to branches, whose messages may contain references.
    unread: Vec<Unread>,
}

impl PlannedEffect for PlannedEvents {
    fn apply<'a>(
        self: Box<Self>,
        transaction: &'a DatabaseTransaction,
        update: &'a RefUpdate,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for event in self.events {
                events::write(transaction, event).await?;
            }
            match (update.user_id, self.unread.is_empty()) {
                (Some(user_id), false) => {
                    let job = ReadMessages {
                        project_id: update.project_id,
                        user_id,
                        unread: self.unread,
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
            .filter(|moved| moved.old != moved.new)
            .filter_map(|moved| Some((moved.reference.strip_prefix(prefix)?, moved)))
            .collect();
        if changes.len() > TOLD_SINGLY {
            for action in [Change::Created, Change::Pushed, Change::Removed] {
                let count = changes
                    .iter()
                    .filter(|(_, moved)| change(moved) == action)
                    .count();
                if count > 0 {
                    events.extend(event(refs, together(ref_type, action, count), None));
                }
            }
            let by_default = |(name, _): &&(&str, &RefChange)| Some(*name) == refs.default_branch;
            if let (RefType::Branch, Some((name, moved))) = (ref_type, changes.iter().find(by_default)) {
                planned.unread.extend(branch(refs, name, moved).await.1);
            }
            continue;
        }
        for (name, moved) in changes {
            let data = match ref_type {
                RefType::Branch => {
                    let (data, unread) = branch(refs, name, moved).await;
                    planned.unread.extend(unread);
                    data
                }
                RefType::Tag => tag(refs, name, moved).await,
            };
            let told = match ref_type {
                RefType::Branch => WebhookTarget {
                    kind: HookEvent::Push,
                    branch: Some(name.to_owned()),
                },
                RefType::Tag => WebhookTarget {
                    kind: HookEvent::TagPush,
                    branch: None,
                },
            };
            events.extend(event(refs, data, Some(told)));
        }
    }
    planned
}

fn change(moved: &RefChange) -> Change {
    match (&moved.old, &moved.new) {
        (None, _) => Change::Created,
        (_, None) => Change::Removed,
        _ => Change::Pushed,
    }
}

fn together(ref_type: RefType, action: Change, count: usize) -> PushData {
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

fn event(refs: &UpdatedRefs<'_>, data: PushData, told: Option<WebhookTarget>) -> Option<NewEvent> {
    Some(NewEvent {
        project_id: Some(refs.project.id),
        author_id: refs.update.user_id,
        action: EventAction::Pushed,
        target: None,
        data: Some(serde_json::to_string(&data).ok()?),
        told,
    })
}

fn plain(ref_type: RefType, name: &str, moved: &RefChange) -> PushData {
    PushData {
        commit_count: 0,
        action: change(moved),
        ref_type,
        commit_from: moved.old.clone(),
        commit_to: moved.new.clone(),
        name: Some(name.to_owned()),
        commit_title: None,
        ref_count: None,
        base: None,
    }
}

async fn branch(refs: &UpdatedRefs<'_>, name: &str, moved: &RefChange) -> (PushData, Option<Unread>) {
    let mut data = plain(RefType::Branch, name, moved);
    let Some(tip) = moved.new.as_deref().and_then(oid) else {
        return (data, None);
    };
    data.base = match (&moved.old, refs.default_branch) {
        (Some(old), _) => Some(old.clone()),
        (None, Some(default)) if default != name => {
            let default = refs.repository.branch(default).await;
            default.ok().map(|branch| branch.commit.to_string())
        }
        (None, _) => None,
    };
    let base = data.base.as_deref().and_then(oid);
    let newest = told(refs.repository.commit(tip).await);
    data.commit_count = match (&newest, base) {
        // Most pushes contain one commit, which needs no walk through history.
        (Some(commit), Some(base)) if commit.parents == [base] => 1,
        _ => told(refs.repository.count_commits(between(base, tip), COUNTED).await).unwrap_or(0),
    };
    let silent = match data.commit_count {
        0 => true,
        1 => newest
            .as_ref()
            .is_some_and(|commit| !has_references(&commit.message)),
        _ => false,
    };
    data.commit_title = newest.map(|commit| commit.title().to_owned());
    let unread = Unread {
        branch: name.to_owned(),
        base: data.base.clone(),
        tip: tip.to_string(),
    };
    (data, (!silent).then_some(unread))
}

async fn tag(refs: &UpdatedRefs<'_>, name: &str, moved: &RefChange) -> PushData {
    let mut data = plain(RefType::Tag, name, moved);
    let Some(target) = moved.new.as_deref().and_then(oid) else {
        return data;
    };
    let tag = told(refs.repository.tag_at(name, target).await);
    // A tag may point to an object that is not a commit.
    if let Some(commit) = tag.and_then(|tag| tag.commit)
        && let Some(commit) = told(refs.repository.commit(commit).await)
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

fn told<T>(answer: git::Result<T>) -> Option<T> {
    answer
        .inspect_err(|error| tracing::warn!(%error, "failed to list pushed commits"))
        .ok()
}
