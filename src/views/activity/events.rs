//! Events.

use domain::activity::events::listing::{EventDetail, NoteSummary};
use domain::activity::push_data::{PushAction, PushData, RefType};
use storage::entities::events::{self, EventAction, Model};

use crate::views::accounts::users::without_profile;
use crate::views::discussion::note::noteable;
use contract::{
    Event, EventNote, EventPushChange, EventPushData, EventRefType, EventTargetType, NoteableType,
};

/// Returns an event in the format of the contract.
#[must_use]
pub fn event(detail: EventDetail, base_url: &str) -> Event {
    let EventDetail {
        event,
        author,
        push,
        comment,
        note,
    } = detail;
    let note = note.map(|summary| event_note(summary, base_url));
    let comment = comment.map(|(comment, author)| EventNote {
        id: comment.id,
        body: comment.note,
        author: without_profile(base_url, author),
        created_at: comment.created_at.into(),
        system: false,
        noteable_id: None,
        noteable_iid: None,
        noteable_type: "Commit".to_owned(),
    });
    Event {
        id: event.id,
        project_id: event.project_id,
        action_name: action_name(&event, push.as_ref()).to_owned(),
        target_id: event.target_id,
        target_iid: event.target_iid,
        target_type: event.target_type.map(|kind| target_type(kind).to_owned()),
        target_title: event.target_title,
        author_id: author.id,
        author_username: author.username.clone(),
        author: without_profile(base_url, author),
        created_at: event.created_at.into(),
        push_data: push.map(push_data),
        note: note.or(comment),
    }
}

fn event_note(summary: NoteSummary, base_url: &str) -> EventNote {
    let NoteSummary { note, author, iid } = summary;
    let (kind, id) = noteable(&note);
    EventNote {
        id: note.id,
        author: without_profile(base_url, author),
        created_at: note.created_at.into(),
        system: note.system,
        noteable_id: Some(id),
        noteable_iid: iid,
        noteable_type: noteable_type(kind).to_owned(),
        body: note.body,
    }
}

fn noteable_type(kind: NoteableType) -> &'static str {
    match kind {
        NoteableType::Issue => "Issue",
        NoteableType::MergeRequest => "MergeRequest",
        NoteableType::Snippet => "Snippet",
        NoteableType::Epic => "Epic",
    }
}

fn action_name(event: &Model, push: Option<&PushData>) -> &'static str {
    match event.action {
        EventAction::Approved => "approved",
        EventAction::Closed => "closed",
        EventAction::Commented => "commented on",
        EventAction::Created if event.target_type == Some(events::EventTargetType::Project) => "created",
        EventAction::Created => "opened",
        EventAction::Destroyed => "destroyed",
        EventAction::Expired => "removed due to membership expiration from",
        EventAction::Joined => "joined",
        EventAction::Left => "left",
        EventAction::Merged => "accepted",
        EventAction::Pushed => match push.map(|push| push.action) {
            Some(PushAction::Created) => "pushed new",
            Some(PushAction::Removed) => "deleted",
            Some(PushAction::Pushed) | None => "pushed to",
        },
        EventAction::Reopened => "reopened",
        EventAction::Updated => "updated",
    }
}

fn target_type(kind: events::EventTargetType) -> &'static str {
    match kind {
        events::EventTargetType::CommitNote | events::EventTargetType::Note => "Note",
        events::EventTargetType::Issue => "Issue",
        events::EventTargetType::MergeRequest => "MergeRequest",
        events::EventTargetType::Milestone => "Milestone",
        events::EventTargetType::Job => "Job",
        events::EventTargetType::Pipeline => "Pipeline",
        events::EventTargetType::Project => "Project",
        events::EventTargetType::Release => "Release",
        events::EventTargetType::Snippet => "Snippet",
        events::EventTargetType::User => "User",
    }
}

fn push_data(push: PushData) -> EventPushData {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    EventPushData {
        commit_count: number(push.commit_count),
        action: match push.action {
            PushAction::Created => EventPushChange::Created,
            PushAction::Removed => EventPushChange::Removed,
            PushAction::Pushed => EventPushChange::Pushed,
        },
        ref_type: match push.ref_type {
            RefType::Branch => EventRefType::Branch,
            RefType::Tag => EventRefType::Tag,
        },
        commit_from: push.commit_from,
        commit_to: push.commit_to,
        r#ref: push.name,
        commit_title: push.commit_title,
        ref_count: push.ref_count.map(number),
    }
}

/// Returns the target types of a filter value.
#[must_use]
pub fn target_types(kind: EventTargetType) -> Vec<events::EventTargetType> {
    match kind {
        EventTargetType::Issue => vec![events::EventTargetType::Issue],
        EventTargetType::MergeRequest => vec![events::EventTargetType::MergeRequest],
        EventTargetType::Milestone => vec![events::EventTargetType::Milestone],
        EventTargetType::Note => vec![events::EventTargetType::CommitNote, events::EventTargetType::Note],
        EventTargetType::Project => vec![events::EventTargetType::Project],
        EventTargetType::Snippet => vec![events::EventTargetType::Snippet],
        EventTargetType::User => vec![events::EventTargetType::User],
    }
}
