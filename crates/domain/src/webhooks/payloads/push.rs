//! Payloads of `push` and `tag_push` events: a branch or tag was created, updated or deleted.

use git::{ChangedPaths, CommitQuery, Oid};
use serde::Serialize;

use super::PayloadContext;
use super::parts::{CommitPart, ProjectPart, RepositoryPart, avatar_url, public_email};
use crate::activity::push_data::{MAX_COUNTED_COMMITS, PushData, RefType};
use crate::code::push_events::{between, oid};
use crate::kernel::error::{Error, Result};

/// Maximum commits in a payload.
const MAX_COMMITS: usize = 20;
/// Placeholder ID of a missing object.
const ZERO_ID: &str = "0000000000000000000000000000000000000000";

#[derive(Debug, Serialize)]
pub(super) struct PushPayload {
    object_kind: &'static str,
    event_name: &'static str,
    before: String,
    after: String,
    #[serde(rename = "ref")]
    reference: String,
    checkout_sha: Option<String>,
    message: Option<String>,
    user_id: Option<i64>,
    user_name: String,
    user_username: String,
    user_email: String,
    user_avatar: Option<String>,
    project_id: i64,
    project: ProjectPart,
    commits: Vec<CommitPart>,
    total_commits_count: usize,
    push_options: serde_json::Map<String, serde_json::Value>,
    repository: RepositoryPart,
}

/// Contents of an updated ref.
#[derive(Default)]
struct RefContents {
    checkout: Option<Oid>,
    message: Option<String>,
    /// Oldest first.
    commits: Vec<Oid>,
    total: usize,
}

pub(super) async fn payload(subject: &PayloadContext) -> Result<PushPayload> {
    let stored = subject.event.data.as_deref().unwrap_or_default();
    let data: PushData = serde_json::from_str(stored).map_err(Error::internal)?;
    let name = data.name.clone().unwrap_or_default();
    let (kind, prefix, contents) = match data.ref_type {
        RefType::Branch => ("push", "refs/heads/", branch(subject, &data).await?),
        RefType::Tag => ("tag_push", "refs/tags/", tag(subject, &name, &data).await?),
    };
    let user = subject.author.as_ref();
    let shown =
        |text: fn(&storage::entities::users::Model) -> &String| user.map(text).cloned().unwrap_or_default();
    Ok(PushPayload {
        object_kind: kind,
        event_name: kind,
        before: data.commit_from.unwrap_or_else(|| ZERO_ID.to_owned()),
        after: data.commit_to.unwrap_or_else(|| ZERO_ID.to_owned()),
        reference: format!("{prefix}{name}"),
        checkout_sha: contents.checkout.map(|id| id.to_string()),
        message: contents.message,
        user_id: subject.event.author_id,
        user_name: shown(|user| &user.name),
        user_username: shown(|user| &user.username),
        user_email: user.and_then(public_email).unwrap_or_default().to_owned(),
        user_avatar: user.and_then(|user| avatar_url(&subject.base_url, user)),
        project_id: subject.project.id,
        project: subject.project_part(),
        commits: commits(subject, contents.commits).await,
        total_commits_count: contents.total,
        push_options: serde_json::Map::new(),
        repository: subject.repository_part(true),
    })
}

async fn branch(subject: &PayloadContext, data: &PushData) -> Result<RefContents> {
    let Some(tip) = data.commit_to.as_deref().and_then(oid) else {
        return Ok(RefContents::default());
    };
    let selection = between(data.base.as_deref().and_then(oid), tip);
    let newest = CommitQuery {
        selection: selection.clone(),
        offset: 0,
        limit: MAX_COMMITS,
    };
    let mut contents = RefContents {
        checkout: Some(tip),
        total: data.commit_count,
        ..RefContents::default()
    };
    match subject.repository.list_commits(newest).await {
        Ok(commits) => contents.commits = commits.into_iter().rev().collect(),
        // Force-pushed away and pruned meanwhile.
        Err(git::Error::ObjectNotFound) => return Ok(contents),
        Err(error) => return Err(error.into()),
    }
    if contents.total >= MAX_COUNTED_COMMITS {
        contents.total = subject.repository.count_commits(selection, usize::MAX).await?;
    }
    Ok(contents)
}

async fn tag(subject: &PayloadContext, name: &str, data: &PushData) -> Result<RefContents> {
    let Some(target) = data.commit_to.as_deref().and_then(oid) else {
        return Ok(RefContents::default());
    };
    let git::Tag { commit, message, .. } = subject.repository.tag_at(name, target).await?;
    Ok(RefContents {
        checkout: commit,
        message,
        commits: commit.into_iter().collect(),
        total: usize::from(commit.is_some()),
    })
}

/// Returns commits with their changed files, or without them if Git fails to list them.
async fn commits(subject: &PayloadContext, ids: Vec<Oid>) -> Vec<CommitPart> {
    let repository = &subject.repository;
    let Ok(commits) = repository.commits(ids.clone()).await else {
        return Vec::new();
    };
    let count = ids.len();
    let files = repository.changed_paths(ids).await;
    let files = files.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to list files changed by a push");
        vec![ChangedPaths::default(); count]
    });
    let parts = commits.into_iter().zip(files);
    parts
        .map(|(commit, files)| subject.commit_part(commit, Some(files)))
        .collect()
}
