//! What webhooks are told: one file a kind, each a function from what was recorded to the body.
//!
//! An area that adds a kind writes its data with [`crate::services::events::record`], adds a file here and a line to
//! [`body`]. Bodies are made when they are first sent, off the request's way; what may have changed by then belongs
//! into the event's data.

mod issue;
mod job;
mod merge_request;
mod note;
mod parts;
mod pipeline;
mod push;
mod snippet;

use git::{Repository, RepositoryId};
use sea_orm::{ConnectionTrait, EntityTrait};
use serde::Serialize;
use storage::entities::events::TargetType;
use storage::entities::{events, issues, namespaces, notes, projects, users};

use crate::error::{Error, Result};
use crate::services::Backend;

/// Largest body of a delivery, in bytes.
pub const LARGEST: usize = 25 * 1024 * 1024;

/// What every payload is made from.
pub(super) struct Subject {
    event: events::Model,
    project: projects::Model,
    namespace: namespaces::Model,
    author: Option<users::Model>,
    base_url: String,
    repository: Repository,
}

/// The body that tells of an event, as JSON.
///
/// # Errors
/// What the database or Git report, and an event of which no webhook tells.
pub(super) async fn body(backend: &Backend, event: events::Model) -> Result<String> {
    let subject = Subject::load(backend, event).await?;
    match (subject.event.action, subject.event.target_type) {
        (events::Action::Pushed, _) => text(&push::payload(&subject).await?),
        (_, Some(TargetType::Issue)) => text(&issue::payload(backend, &subject).await?),
        (_, Some(TargetType::Job)) => text(&job::payload(backend, &subject).await?),
        (_, Some(TargetType::Pipeline)) => text(&pipeline::payload(backend, &subject).await?),
        (_, Some(TargetType::MergeRequest)) => text(&merge_request::payload(backend, &subject).await?),
        (events::Action::Commented, Some(TargetType::CommitNote | TargetType::Note)) => {
            text(&note::payload(backend, &subject).await?)
        }
        _ => Err(Error::internal("webhooks are not triggered by this event")),
    }
}

/// Whether only few may see what an event tells of as it is now; none when it is gone.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn is_confidential(db: &impl ConnectionTrait, event_id: i64) -> Result<Option<bool>> {
    let Some(event) = events::Entity::find_by_id(event_id).one(db).await? else {
        return Ok(None);
    };
    let issue_id = match (event.target_type, event.target_id) {
        (Some(TargetType::Issue), issue_id) => issue_id,
        (Some(TargetType::Note), Some(id)) => match notes::Entity::find_by_id(id).one(db).await? {
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

fn text(payload: &impl Serialize) -> Result<String> {
    serde_json::to_string(payload).map_err(Error::internal)
}

impl Subject {
    async fn load(backend: &Backend, event: events::Model) -> Result<Self> {
        let db = backend.database.read();
        let gone = || Error::internal("the project of the event no longer exists");
        let project_id = event.project_id.ok_or_else(gone)?;
        let found = projects::by_reference(db, &project_id.to_string()).await?;
        let (project, namespace) = found.ok_or_else(gone)?;
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
