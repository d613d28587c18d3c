//! References that moved, as events: one for each branch and tag, or one for many that moved together.

use git::{Oid, Repository, Selection};
use serde::{Deserialize, Serialize};
use storage::entities::project_hooks::Kind;
use storage::entities::projects;

use super::{Action, NewEvent, Told};
use crate::services::references::Moved;
use crate::services::saying::is_silent;

/// Up to how many branches, or tags, that move together are told one by one.
const TOLD_SINGLY: usize = 3;
/// How far the commits of a push are counted while its client waits.
pub const COUNTED: usize = 10_001;

/// What happened to a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Created,
    /// It is gone.
    Removed,
    /// It moved.
    Pushed,
}

/// What kind of reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefType {
    /// A branch.
    Branch,
    /// A tag.
    Tag,
}

/// The data of an event of this kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushData {
    /// How many commits came, counted to [`COUNTED`].
    pub commit_count: usize,
    /// What happened.
    pub action: Change,
    /// To what.
    pub ref_type: RefType,
    /// The object it stood at; absent when it is new.
    pub commit_from: Option<String>,
    /// The object it stands at; absent when it is gone.
    pub commit_to: Option<String>,
    /// Its short name; absent when the event is about several.
    #[serde(rename = "ref")]
    pub name: Option<String>,
    /// The title of the newest commit.
    pub commit_title: Option<String>,
    /// How many references it is about, when there are several.
    pub ref_count: Option<usize>,
    /// The commit whose history the new commits do not count: where the branch stood, or for a new branch where the
    /// default branch stood.
    pub base: Option<String>,
}

/// What a push looks at in the repository.
pub struct Scene<'a> {
    /// The project.
    pub project: &'a projects::Model,
    /// The default branch, which the push may just have made.
    pub default_branch: Option<&'a str>,
    /// Who pushed.
    pub author_id: Option<i64>,
    /// The repository, as it is after the push.
    pub repository: &'a Repository,
}

/// What a push is told by, and what it leaves to be read.
#[derive(Debug, Default)]
pub struct News {
    /// The events.
    pub events: Vec<NewEvent>,
    /// The commits that came to branches, whose messages may name something.
    pub unread: Vec<Unread>,
}

/// Commits that came to a branch; ids are 40 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The short name of the branch.
    pub branch: String,
    /// The commit whose history they are not part of; absent when there is none.
    pub base: Option<String>,
    /// The newest of them.
    pub tip: String,
}

/// What there is to tell of references that moved together. What Git cannot tell any more is left out rather than failing:
/// the push has happened. Of many branches that move together, the commits of the default branch alone are to be read.
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
        // Most often one commit came: that needs no look at history.
        (Some(commit), Some(base)) if commit.parents == [base] => 1,
        _ => told(scene.repository.count_commits(between(base, tip), COUNTED).await).unwrap_or(0),
    };
    let silent = match data.commit_count {
        0 => true,
        1 => newest.as_ref().is_some_and(|commit| is_silent(&commit.message)),
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
    // A tag may also be on something that is no commit.
    if let Some(commit) = tag.and_then(|tag| tag.commit)
        && let Some(commit) = told(scene.repository.commit(commit).await)
    {
        data.commit_count = 1;
        data.commit_title = Some(commit.title().to_owned());
    }
    data
}

/// The commits of `tip` that `base` has not.
#[must_use]
pub fn between(base: Option<Oid>, tip: Oid) -> Selection {
    Selection {
        tips: vec![tip],
        hidden: base.into_iter().collect(),
        ..Selection::default()
    }
}

/// An id as Git knows it.
#[must_use]
pub fn oid(text: &str) -> Option<Oid> {
    text.parse().ok()
}

fn told<T>(answer: git::Result<T>) -> Option<T> {
    answer
        .inspect_err(|error| tracing::warn!(%error, "failed to list pushed commits"))
        .ok()
}
