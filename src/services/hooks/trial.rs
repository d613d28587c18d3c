//! Trying a hook: it is sent at once what it would be told, made from what the project has.

use chrono::TimeDelta;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};

use super::attempt::OutOfTurn;
use super::delivery::send_now;
use super::payloads;
use crate::entities::events::{self, Action, TargetType};
use crate::entities::project_hooks::Kind;
use crate::entities::{commit_comments, hook_deliveries, now};
use crate::error::{Error, Result};
use crate::git::{ListCommits, Repository, TagOrder, TagQuery, Window};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::commits;
use crate::services::events::pushes::{Change, PushData, RefType, between};
use crate::services::throttle::{self, Allowance};

/// How many commits the push of a trial brings.
const COMMITS: usize = 3;

/// How often a user may have something sent at once, by trials and repetitions together: whoever answers need not be
/// one who asked to be called.
pub(super) const TRIALS: Allowance = Allowance {
    action: "hook_trial",
    most: 10,
    within: TimeDelta::minutes(1),
};

/// Which kind of thing a trial tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The newest commits of the default branch, as if they had just been pushed.
    Push,
    /// The newest tag.
    TagPush,
    /// The newest comment.
    Note,
}

/// Tries a hook.
///
/// # Errors
/// 404, 422 when the project has nothing to tell of, 429 for a user who does so too often, and when too many callers wait
/// for receivers.
pub async fn run(
    backend: &Backend,
    access: &ProjectAccess,
    hook_id: i64,
    trigger: Trigger,
) -> Result<hook_deliveries::Model> {
    let hook = super::get(backend, access, hook_id).await?;
    let user_id = access.caller.signed_in()?.id;
    let repository = commits::open(backend, access);
    let plain = events::Model {
        id: 0,
        project_id: Some(access.project.id),
        author_id: Some(user_id),
        action: Action::Pushed,
        target_type: None,
        target_id: None,
        target_iid: None,
        target_title: None,
        data: None,
        created_at: now(),
    };
    let with = |data: PushData| -> Result<events::Model> {
        Ok(events::Model {
            data: Some(serde_json::to_string(&data).map_err(Error::internal)?),
            ..plain.clone()
        })
    };
    let (kind, event) = match trigger {
        Trigger::Push => (Kind::Push, with(push(access, &repository).await?)?),
        Trigger::TagPush => (Kind::TagPush, with(tag(&repository).await?)?),
        Trigger::Note => {
            let comment = newest_comment(backend, access.project.id).await?;
            let event = events::Model {
                action: Action::Commented,
                target_type: Some(TargetType::CommitNote),
                target_id: Some(comment.id),
                ..plain
            };
            (Kind::Note, event)
        }
    };
    throttle::spend(backend, user_id, TRIALS).await?;
    let sent = OutOfTurn {
        kind,
        event_id: None,
        uuid: None,
        body: payloads::body(backend, event).await?,
    };
    send_now(backend, &hook, sent).await
}

fn nothing(text: &'static str) -> Error {
    Error::Unprocessable(text.into())
}

async fn push(access: &ProjectAccess, repository: &Repository) -> Result<PushData> {
    let none = || nothing("Ensure the project has at least one commit.");
    let branch = access.project.default_branch.as_deref().ok_or_else(none)?;
    let tip = repository.branch(branch).await.map_err(|_| none())?.commit;
    let newest = ListCommits {
        selection: between(None, tip),
        offset: 0,
        limit: COMMITS + 1,
    };
    let newest = repository.list_commits(newest).await?;
    let base = newest.get(COMMITS).map(ToString::to_string);
    Ok(PushData {
        commit_count: newest.len().min(COMMITS),
        action: if base.is_some() {
            Change::Pushed
        } else {
            Change::Created
        },
        ref_type: RefType::Branch,
        commit_from: base.clone(),
        commit_to: Some(tip.to_string()),
        name: Some(branch.to_owned()),
        commit_title: None,
        ref_count: None,
        base,
    })
}

async fn tag(repository: &Repository) -> Result<PushData> {
    let none = || nothing("Ensure the project has tags.");
    let query = TagQuery {
        search: None,
        order: TagOrder::Updated,
        descending: true,
        window: Window { offset: 0, limit: 1 },
    };
    let found = repository.tags(query).await.map_err(|_| none())?;
    let tag = found.tags.into_iter().next().ok_or_else(none)?;
    Ok(PushData {
        commit_count: 1,
        action: Change::Created,
        ref_type: RefType::Tag,
        commit_from: None,
        commit_to: Some(tag.target.to_string()),
        name: Some(tag.name),
        commit_title: None,
        ref_count: None,
        base: None,
    })
}

async fn newest_comment(backend: &Backend, project_id: i64) -> Result<commit_comments::Model> {
    let newest = commit_comments::Entity::find()
        .filter(commit_comments::Column::ProjectId.eq(project_id))
        .order_by_desc(commit_comments::Column::Id)
        .one(backend.database.read());
    newest
        .await?
        .ok_or_else(|| nothing("Ensure the project has notes."))
}
