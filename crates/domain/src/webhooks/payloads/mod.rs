//! Payloads of webhooks, one module per kind of event.
//!
//! A new kind of event stores its data with [`crate::activity::events::record`] and needs a module here and a
//! branch in [`body`]. Bodies are built when they are first sent, outside of requests. Data that may change
//! until then belongs into the event.

mod changes;
mod issue;
mod job;
mod labels;
mod merge_request;
mod note;
mod parts;
mod pipeline;
mod push;
mod release;
mod snippet;

use std::io;

use git::{Repository, RepositoryId};
use sea_orm::{ConnectionTrait, EntityTrait};
use serde::{Deserialize, Serialize};
use storage::entities::events::EventTargetType;
use storage::entities::{events, issues, namespaces, notes, projects, status_checks, users};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum size of a request body, in bytes.
pub const MAX_BYTES: usize = 25 * 1024 * 1024;

/// Common data of all payloads.
pub(super) struct PayloadContext {
    event: events::Model,
    project: projects::Model,
    namespace: namespaces::Model,
    author: Option<users::Model>,
    base_url: String,
    repository: Repository,
}

/// Returns the request body of an event, as JSON, or `None` if it is larger than [`MAX_BYTES`].
///
/// # Errors
/// Returns an error if the database or Git fails, or if the event has no payload.
pub(super) async fn body(backend: &Backend, event: events::Model) -> Result<Option<String>> {
    if has_too_large_labels(backend, &event).await? {
        return Ok(None);
    }
    let subject = PayloadContext::load(backend, event).await?;
    match (subject.event.action, subject.event.target_type) {
        (events::EventAction::Pushed, _) => to_json(&push::payload(&subject).await?),
        (_, Some(EventTargetType::Issue)) => to_json(&issue::payload(backend, &subject).await?),
        (_, Some(EventTargetType::Job)) => to_json(&job::payload(backend, &subject).await?),
        (_, Some(EventTargetType::Pipeline)) => to_json(&pipeline::payload(backend, &subject).await?),
        (_, Some(EventTargetType::Release)) => to_json(&release::payload(&subject).await?),
        (_, Some(EventTargetType::MergeRequest)) => {
            to_json(&merge_request::payload(backend, &subject, None).await?)
        }
        (events::EventAction::Commented, Some(EventTargetType::CommitNote | EventTargetType::Note)) => {
            to_json(&note::payload(backend, &subject).await?)
        }
        _ => Err(Error::internal("the event has no webhook payload")),
    }
}

/// Returns the request body of an event of a merge request for an external status check, as JSON, or `None` if it is
/// larger than [`MAX_BYTES`].
///
/// # Errors
/// Returns an error if the database or Git fails, or if the merge request was deleted.
pub(super) async fn status_check_body(
    backend: &Backend,
    event: events::Model,
    check: &status_checks::Model,
) -> Result<Option<String>> {
    if has_too_large_labels(backend, &event).await? {
        return Ok(None);
    }
    let subject = PayloadContext::load(backend, event).await?;
    let part = merge_request::StatusCheckPart {
        id: check.id,
        name: check.name.clone(),
        external_url: check.external_url.clone(),
    };
    to_json(&merge_request::payload(backend, &subject, Some(part)).await?)
}

/// Returns whether the resource of an event is confidential now, or `None` if it was deleted.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn is_confidential(db: &impl ConnectionTrait, event_id: i64) -> Result<Option<bool>> {
    let Some(event) = events::Entity::find_by_id(event_id).one(db).await? else {
        return Ok(None);
    };
    is_target_confidential(db, event.target_type, event.target_id).await
}

/// The parts of a payload that identify an issue or a note.
#[derive(Deserialize)]
struct PayloadTarget {
    object_kind: String,
    object_attributes: TargetAttributes,
}

#[derive(Deserialize)]
struct TargetAttributes {
    id: i64,
    noteable_type: Option<String>,
}

/// Returns whether the resource of the payload of an issue or a note is confidential now, or `None` if it was deleted
/// or is unknown.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn is_payload_confidential(
    db: &impl ConnectionTrait,
    payload: &str,
) -> Result<Option<bool>> {
    let Ok(target) = serde_json::from_str::<PayloadTarget>(payload) else {
        return Ok(None);
    };
    let about = target.object_attributes;
    let kind = match (target.object_kind.as_str(), about.noteable_type.as_deref()) {
        ("issue", _) => EventTargetType::Issue,
        ("note", Some("Commit")) => EventTargetType::CommitNote,
        ("note", _) => EventTargetType::Note,
        _ => return Ok(None),
    };
    is_target_confidential(db, Some(kind), Some(about.id)).await
}

async fn is_target_confidential(
    db: &impl ConnectionTrait,
    target_type: Option<EventTargetType>,
    target_id: Option<i64>,
) -> Result<Option<bool>> {
    let issue_id = match (target_type, target_id) {
        (Some(EventTargetType::Issue), issue_id) => issue_id,
        (Some(EventTargetType::Note), Some(id)) => match notes::Entity::find_by_id(id).one(db).await? {
            Some(note) if note.confidential => return Ok(Some(true)),
            Some(note) => note.issue_id,
            None => return Ok(None),
        },
        _ => None,
    };
    let Some(issue_id) = issue_id else {
        return Ok(Some(false));
    };
    let issue = issues::Entity::find_by_id(issue_id).one(db).await?;
    Ok(issue.map(|issue| issue.confidential))
}

/// Returns whether the labels of a body are larger than [`MAX_BYTES`]. The number of labels and their descriptions can
/// exceed the memory, so they are not read then.
async fn has_too_large_labels(backend: &Backend, event: &events::Model) -> Result<bool> {
    let size = labels::description_bytes(backend.database.read(), event).await?;
    Ok(size > MAX_BYTES as u64)
}

/// Returns a payload as JSON, or `None` if it is larger than [`MAX_BYTES`].
fn to_json(payload: &impl Serialize) -> Result<Option<String>> {
    let mut body = BodyWriter(Vec::new());
    match serde_json::to_writer(&mut body, payload) {
        Ok(()) => String::from_utf8(body.0).map(Some).map_err(Error::internal),
        Err(error) if error.is_io() => Ok(None),
        Err(error) => Err(Error::internal(error)),
    }
}

/// Writer that fails when the body becomes larger than [`MAX_BYTES`].
struct BodyWriter(Vec<u8>);

impl io::Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > MAX_BYTES.saturating_sub(self.0.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PayloadContext {
    async fn load(backend: &Backend, event: events::Model) -> Result<Self> {
        let db = backend.database.read();
        let missing = || Error::internal("the project of the event does not exist");
        let project_id = event.project_id.ok_or_else(missing)?;
        let found = projects::by_reference(db, &project_id.to_string()).await?;
        let (project, namespace) = found.ok_or_else(missing)?;
        let author = match event.author_id {
            Some(id) => users::Entity::find_by_id(id).one(db).await?,
            None => None,
        };
        Ok(Self {
            repository: backend
                .repositories
                .repository(&RepositoryId::of_project(project_id)),
            base_url: backend.instance.base_url.clone(),
            event,
            project,
            namespace,
            author,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, to_json};

    #[test]
    fn larger_body_is_not_built() {
        // In JSON, a text has two quotation marks.
        let text = "x".repeat(MAX_BYTES - 2);
        let body = to_json(&text).expect("JSON");
        assert_eq!(body.map(|body| body.len()), Some(MAX_BYTES));
        assert!(to_json(&(text + "x")).expect("JSON").is_none());
    }
}
