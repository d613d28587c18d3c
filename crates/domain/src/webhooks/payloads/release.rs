//! Payloads of `release` events: a release was created, updated or deleted.

use serde::Serialize;
use storage::entities::release_links::ReleaseLinkType;

use super::PayloadContext;
use super::parts::{CommitPart, ProjectPart, date};
use crate::code::push_events::oid;
use crate::kernel::error::{Error, Result};
use crate::releases::addresses::{self, SOURCE_FORMATS};
use crate::releases::events::{LinkEventData, ReleaseAction, ReleaseEventData};

#[derive(Debug, Serialize)]
pub(super) struct ReleasePayload {
    id: i64,
    created_at: String,
    description: Option<String>,
    name: String,
    released_at: String,
    tag: String,
    object_kind: &'static str,
    project: ProjectPart,
    url: String,
    action: ReleaseAction,
    assets: AssetsPart,
    commit: Option<CommitPart>,
}

#[derive(Debug, Serialize)]
struct AssetsPart {
    count: usize,
    links: Vec<LinkPart>,
    sources: Vec<SourcePart>,
}

#[derive(Debug, Serialize)]
struct LinkPart {
    id: i64,
    external: bool,
    link_type: ReleaseLinkType,
    name: String,
    url: String,
}

#[derive(Debug, Serialize)]
struct SourcePart {
    format: &'static str,
    url: String,
}

pub(super) async fn payload(subject: &PayloadContext) -> Result<ReleasePayload> {
    let stored = subject.event.data.as_deref().unwrap_or_default();
    let data: ReleaseEventData = serde_json::from_str(stored).map_err(Error::internal)?;
    let web_url = subject.web_url();
    let link = |link: LinkEventData| LinkPart {
        id: link.id,
        external: addresses::is_external(&web_url, &link.url),
        link_type: link.link_type,
        name: link.name,
        url: link.url,
    };
    let sources = SOURCE_FORMATS.map(|format| SourcePart {
        format,
        url: addresses::source(&web_url, &subject.project.path, &data.tag, format),
    });
    let commit = commit(subject, &data).await?;
    Ok(ReleasePayload {
        id: data.id,
        created_at: date(data.created_at),
        description: data.description,
        name: data.name,
        released_at: date(data.released_at),
        object_kind: "release",
        project: subject.project_part(),
        url: addresses::page(&web_url, &data.tag),
        action: data.action,
        assets: AssetsPart {
            count: data.links.len() + sources.len(),
            links: data.links.into_iter().map(link).collect(),
            sources: sources.into(),
        },
        tag: data.tag,
        commit: commit.map(|commit| subject.commit_part(commit, None)),
    })
}

/// Returns the commit at the time of the event. Test deliveries have the present commit of the tag.
async fn commit(subject: &PayloadContext, data: &ReleaseEventData) -> Result<Option<git::Commit>> {
    let repository = &subject.repository;
    let id = match data.commit.as_deref().and_then(oid) {
        Some(id) => Some(id),
        None => match repository.tags_named(vec![data.tag.clone()]).await {
            Err(git::Error::RepositoryMissing) => None,
            tags => tags?.into_iter().flatten().next().and_then(|tag| tag.commit),
        },
    };
    match id {
        Some(id) => Ok(repository.existing_commits(vec![id]).await?.into_iter().next()),
        None => Ok(None),
    }
}
