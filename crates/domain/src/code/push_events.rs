//! Push events: one for each branch or tag, or one for many refs updated together.

use git::{Oid, Repository, Selection};
use serde::{Deserialize, Serialize};
use storage::entities::project_hooks::Kind;
use storage::entities::projects;

use crate::activity::events::{Action, NewEvent, Told};
use crate::activity::push_data::{COUNTED, Change, PushData, RefType};
use crate::code::ref_updates::Moved;
use crate::kernel::text::references::has_references;

/// Maximum branches, or tags, updated together that get an event each.
const TOLD_SINGLY: usize = 3;
/// Context of a push.
pub struct Scene<'a> {
    /// The project.
    pub project: &'a projects::Model,
    /// The default branch, which the push may have created.
    pub default_branch: Option<&'a str>,
    /// ID of the user who pushed.
    pub author_id: Option<i64>,
    /// The repository after the push.
    pub repository: &'a Repository,
}

/// Effects of a push.
#[derive(Debug, Default)]
pub struct News {
    /// The events.
    pub events: Vec<NewEvent>,
    /// Commits pushed to branches, whose messages may contain references.
    pub unread: Vec<Unread>,
}

/// Commits pushed to a branch. IDs have 40 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// Short name of the branch.
    pub branch: String,
    /// The commit whose history is excluded, if any.
    pub base: Option<String>,
    /// The newest commit.
    pub tip: String,
}

/// Returns the effects of refs updated together. Errors of Git are logged and details left out, because the
/// push has already happened. If many branches are updated, only the commits of the default branch are
/// processed.
pub async fn of_moved(scene: &Scene<'_>, moved: &[Moved]) -> News {
    let mut news = News::default();
    let events = &mut news.events;
    for (prefix, ref_type) in [("refs/heads/", RefType::Branch), ("refs/tags/", RefType::Tag)] {
        let changes: Vec<(&str, &Moved)> = moved
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
                    events.extend(event(scene, together(ref_type, action, count), None));
                }
            }
            let by_default = |(name, _): &&(&str, &Moved)| Some(*name) == scene.default_branch;
            if let (RefType::Branch, Some((name, moved))) = (ref_type, changes.iter().find(by_default)) {
                news.unread.extend(branch(scene, name, moved).await.1);
            }
            continue;
        }
        for (name, moved) in changes {
            let data = match ref_type {
                RefType::Branch => {
                    let (data, unread) = branch(scene, name, moved).await;
                    news.unread.extend(unread);
                    data
                }
                RefType::Tag => tag(scene, name, moved).await,
            };
            let told = match ref_type {
                RefType::Branch => Told {
                    kind: Kind::Push,
                    branch: Some(name.to_owned()),
                },
                RefType::Tag => Told {
                    kind: Kind::TagPush,
                    branch: None,
                },
            };
            events.extend(event(scene, data, Some(told)));
        }
    }
    news
}

fn change(moved: &Moved) -> Change {
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

fn event(scene: &Scene<'_>, data: PushData, told: Option<Told>) -> Option<NewEvent> {
    Some(NewEvent {
        project_id: Some(scene.project.id),
        author_id: scene.author_id,
        action: Action::Pushed,
        target: None,
        data: Some(serde_json::to_string(&data).ok()?),
        told,
    })
}

fn plain(ref_type: RefType, name: &str, moved: &Moved) -> PushData {
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

async fn branch(scene: &Scene<'_>, name: &str, moved: &Moved) -> (PushData, Option<Unread>) {
    let mut data = plain(RefType::Branch, name, moved);
    let Some(tip) = moved.new.as_deref().and_then(oid) else {
        return (data, None);
    };
    data.base = match (&moved.old, scene.default_branch) {
        (Some(old), _) => Some(old.clone()),
        (None, Some(default)) if default != name => {
            let default = scene.repository.branch(default).await;
            default.ok().map(|branch| branch.commit.to_string())
        }
        (None, _) => None,
    };
    let base = data.base.as_deref().and_then(oid);
    let newest = told(scene.repository.commit(tip).await);
    data.commit_count = match (&newest, base) {
        // Most pushes contain one commit, which needs no walk through history.
        (Some(commit), Some(base)) if commit.parents == [base] => 1,
        _ => told(scene.repository.count_commits(between(base, tip), COUNTED).await).unwrap_or(0),
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

async fn tag(scene: &Scene<'_>, name: &str, moved: &Moved) -> PushData {
    let mut data = plain(RefType::Tag, name, moved);
    let Some(target) = moved.new.as_deref().and_then(oid) else {
        return data;
    };
    let tag = told(scene.repository.tag_at(name, target).await);
    // A tag may point to an object that is not a commit.
    if let Some(commit) = tag.and_then(|tag| tag.commit)
        && let Some(commit) = told(scene.repository.commit(commit).await)
    {
        data.commit_count = 1;
        data.commit_title = Some(commit.title().to_owned());
    }
    data
}

/// Selects the commits of `tip` that `base` does not contain.
#[must_use]
pub fn between(base: Option<Oid>, tip: Oid) -> Selection {
    Selection {
        tips: vec![tip],
        hidden: base.into_iter().collect(),
        ..Selection::default()
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
