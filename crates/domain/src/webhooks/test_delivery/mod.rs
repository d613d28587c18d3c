//! Test deliveries of webhooks, built from the newest data of the project and sent immediately.

mod newest;

use chrono::TimeDelta;
use git::{CommitQuery, PageWindow, Repository, TagOrder, TagQuery};
use storage::entities::events::{self, EventAction};
use storage::entities::project_hooks::HookEvent;
use storage::entities::{hook_deliveries, now};

use super::attempt::{ImmediateRequest, caller_slot};
use super::delivery::send_now;
use super::payloads;
use crate::activity::push_data::{PushAction, PushData, RefType};
use crate::code::push_events::between;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::rate_limit::{self, Quota};

/// Maximum commits in a test push.
const MAX_COMMITS: usize = 3;

/// Quota of a user for test deliveries and redeliveries together. The receiver may be a third party that did
/// not ask for them.
pub(super) const TEST_QUOTA: Quota = Quota {
    action: "hook_trial",
    most: 10,
    within: TimeDelta::minutes(1),
};

/// Event of a test delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestTrigger {
    /// The newest commits of the default branch, as if just pushed.
    Push,
    /// The newest tag.
    TagPush,
    /// The newest issue.
    Issue {
        /// Selects confidential issues or all others.
        confidential: bool,
    },
    /// The newest comment.
    Note {
        /// Selects confidential notes and notes on confidential noteables, or all others.
        confidential: bool,
    },
    /// The newest merge request.
    MergeRequest,
    /// The newest pipeline.
    Pipeline,
    /// The newest job.
    Job,
    /// The newest release.
    Release,
}

/// Sends a test delivery.
///
/// # Errors
/// Returns `Error::NotFound` if the webhook does not exist. Returns `Error::Unprocessable` if the project has
/// no suitable data. Returns `Error::RateLimited` if the user exceeds the quota or too many callers are
/// waiting for receivers.
pub async fn run(
    backend: &Backend,
    access: &ProjectAccess,
    hook_id: i64,
    trigger: TestTrigger,
) -> Result<hook_deliveries::Model> {
    let hook = super::get(backend, access, hook_id).await?;
    let user_id = access.caller.signed_in()?.id;
    let repository = repository_access::open(backend, access);
    let plain = events::Model {
        id: 0,
        project_id: Some(access.project.id),
        author_id: Some(user_id),
        action: EventAction::Pushed,
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
        TestTrigger::Push => (HookEvent::Push, with(push(access, &repository).await?)?),
        TestTrigger::TagPush => (HookEvent::TagPush, with(tag(&repository).await?)?),
        TestTrigger::Issue { confidential } => {
            let kind = match confidential {
                true => HookEvent::ConfidentialIssue,
                false => HookEvent::Issue,
            };
            (kind, newest::issue(backend, plain, confidential).await?)
        }
        TestTrigger::Note { confidential } => {
            let kind = match confidential {
                true => HookEvent::ConfidentialNote,
                false => HookEvent::Note,
            };
            (kind, newest::note(backend, plain, confidential).await?)
        }
        TestTrigger::MergeRequest => (
            HookEvent::MergeRequest,
            newest::merge_request(backend, plain).await?,
        ),
        TestTrigger::Pipeline => (HookEvent::Pipeline, newest::pipeline(backend, plain).await?),
        TestTrigger::Job => (HookEvent::Job, newest::job(backend, plain).await?),
        TestTrigger::Release => (HookEvent::Release, newest::release(backend, plain).await?),
    };
    rate_limit::consume(backend, user_id, TEST_QUOTA).await?;
    let slot = caller_slot(backend, user_id).await?;
    let sent = ImmediateRequest {
        kind,
        event_id: None,
        uuid: None,
        payload: payloads::body(backend, event).await?,
        slot,
    };
    send_now(backend, &hook, sent).await
}

fn no_data(text: &'static str) -> Error {
    Error::Unprocessable(text.into())
}

async fn push(access: &ProjectAccess, repository: &Repository) -> Result<PushData> {
    let none = || no_data("Ensure the project has at least one commit.");
    let branch = access.project.default_branch.as_deref().ok_or_else(none)?;
    let tip = repository.branch(branch).await.map_err(|_| none())?.commit;
    let newest = CommitQuery {
        selection: between(None, tip),
        offset: 0,
        limit: MAX_COMMITS + 1,
    };
    let newest = repository.list_commits(newest).await?;
    let base = newest.get(MAX_COMMITS).map(ToString::to_string);
    Ok(PushData {
        commit_count: newest.len().min(MAX_COMMITS),
        action: if base.is_some() {
            PushAction::Pushed
        } else {
            PushAction::Created
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
    let none = || no_data("Ensure the project has tags.");
    let query = TagQuery {
        search: None,
        order: TagOrder::Updated,
        descending: true,
        window: PageWindow { offset: 0, limit: 1 },
    };
    let found = repository.tags(query).await.map_err(|_| none())?;
    let tag = found.tags.into_iter().next().ok_or_else(none)?;
    Ok(PushData {
        commit_count: 1,
        action: PushAction::Created,
        ref_type: RefType::Tag,
        commit_from: None,
        commit_to: Some(tag.target.to_string()),
        name: Some(tag.name),
        commit_title: None,
        ref_count: None,
        base: None,
    })
}
