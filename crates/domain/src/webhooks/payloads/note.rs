//! Payloads of `note` events: a comment on a commit, issue, merge request or snippet. [`noteable`] has one
//! branch per noteable type.

use std::sync::LazyLock;

use git::{DiffEntry, LineSide, Oid};
use regex::Regex;
use sea_orm::{EntityTrait, QueryFilter};
use serde::Serialize;
use storage::entities::commit_comments::{self, LineType};
use storage::entities::events::EventTargetType;
use storage::entities::{issues, merge_requests, notes, snippets};

use super::parts::{CommitPart, ProjectPart, RepositoryPart, UserPart, date};
use super::{PayloadContext, issue, merge_request, snippet};
use crate::code::push_events::oid;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets;

#[derive(Debug, Serialize)]
pub(super) struct NotePayload {
    object_kind: &'static str,
    event_type: &'static str,
    user: UserPart,
    project_id: i64,
    project: ProjectPart,
    object_attributes: NoteAttributes,
    repository: RepositoryPart,
    #[serde(flatten)]
    on: NoteableAttributes,
}

/// The noteable, under the name of its type.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum NoteableAttributes {
    Commit(Box<CommitPart>),
    Issue(Box<issue::IssueAttributes>),
    MergeRequest(Box<merge_request::MergeRequestAttributes>),
    Snippet(Box<snippet::SnippetAttributes>),
}

/// The noteable of a note. Commits are handled separately.
struct NoteableDetail {
    kind: &'static str,
    id: i64,
    /// URL of its page.
    page: String,
    confidential: bool,
    on: NoteableAttributes,
}

#[derive(Debug, Serialize)]
struct NoteAttributes {
    attachment: Option<String>,
    author_id: Option<i64>,
    change_position: Option<Position>,
    commit_id: Option<String>,
    created_at: String,
    discussion_id: String,
    id: i64,
    line_code: Option<String>,
    note: String,
    noteable_id: Option<i64>,
    noteable_type: &'static str,
    original_position: Option<Position>,
    position: Option<Position>,
    project_id: i64,
    resolved_at: Option<String>,
    resolved_by_id: Option<i64>,
    resolved_by_push: Option<bool>,
    st_diff: Option<LineDiff>,
    system: bool,
    r#type: Option<String>,
    updated_at: String,
    updated_by_id: Option<i64>,
    description: String,
    url: String,
}

/// Position in a diff; comments on commits have none.
#[derive(Debug, Serialize)]
struct Position {}

/// The diff of the file with the commented line.
#[derive(Debug, Serialize)]
struct LineDiff {
    diff: String,
    new_path: String,
    old_path: String,
    a_mode: String,
    b_mode: String,
    new_file: bool,
    renamed_file: bool,
    deleted_file: bool,
}

pub(super) async fn payload(backend: &Backend, subject: &PayloadContext) -> Result<NotePayload> {
    match subject.event.target_type {
        Some(EventTargetType::Note) => on_noteable(backend, subject).await,
        _ => on_commit(backend, subject).await,
    }
}

async fn on_noteable(backend: &Backend, subject: &PayloadContext) -> Result<NotePayload> {
    let missing = || Error::internal("the note of the event does not exist");
    let id = subject.event.target_id.ok_or_else(missing)?;
    let note = notes::Entity::find_by_id(id).one(backend.database.read());
    let note = note.await?.ok_or_else(missing)?;
    let noteable_part = noteable(backend, subject, &note).await?.ok_or_else(missing)?;
    let url = format!("{}#note_{id}", noteable_part.page);
    Ok(NotePayload {
        object_kind: "note",
        event_type: match note.confidential || noteable_part.confidential {
            true => "confidential_note",
            false => "note",
        },
        user: subject.user_part(),
        project_id: subject.project.id,
        project: subject.project_part(),
        object_attributes: note_attributes(subject, note, noteable_part.kind, noteable_part.id, url),
        repository: subject.repository_part(false),
        on: noteable_part.on,
    })
}

/// Returns the noteable of a note, or `None` if it was deleted.
async fn noteable(
    backend: &Backend,
    subject: &PayloadContext,
    note: &notes::Model,
) -> Result<Option<NoteableDetail>> {
    let (db, home) = (backend.database.read(), subject.web_url());
    if let Some(id) = note.issue_id {
        let Some(found) = issues::Entity::find_by_id(id).one(db).await? else {
            return Ok(None);
        };
        return Ok(Some(NoteableDetail {
            kind: "Issue",
            id,
            page: format!("{home}/-/issues/{}", found.iid),
            confidential: found.confidential,
            on: NoteableAttributes::Issue(Box::new(issue::load_attributes(backend, subject, found).await?)),
        }));
    }
    if let Some(id) = note.merge_request_id {
        let Some(found) = merge_requests::Entity::find_by_id(id).one(db).await? else {
            return Ok(None);
        };
        return Ok(Some(NoteableDetail {
            kind: "MergeRequest",
            id,
            page: format!("{home}/-/merge_requests/{}", found.iid),
            confidential: false,
            on: NoteableAttributes::MergeRequest(Box::new(
                merge_request::load_attributes(backend, subject, found).await?,
            )),
        }));
    }
    if let Some(id) = note.snippet_id {
        let visible = snippets::Entity::find_by_id(id).filter(snippets::has_visible_author());
        let Some(found) = visible.one(db).await? else {
            return Ok(None);
        };
        let page = format!("{home}/-/snippets/{id}");
        return Ok(Some(NoteableDetail {
            kind: "Snippet",
            id,
            confidential: false,
            on: NoteableAttributes::Snippet(Box::new(
                snippet::load_attributes(backend, found, page.clone()).await?,
            )),
            page,
        }));
    }
    Ok(None)
}

/// Returns the attributes of a note on a noteable other than a commit.
fn note_attributes(
    subject: &PayloadContext,
    note: notes::Model,
    noteable_type: &'static str,
    noteable_id: i64,
    url: String,
) -> NoteAttributes {
    NoteAttributes {
        attachment: None,
        author_id: note.author_id,
        change_position: None,
        commit_id: None,
        created_at: date(note.created_at),
        discussion_id: note.discussion_id.unwrap_or_else(|| discussion("note", note.id)),
        id: note.id,
        line_code: None,
        noteable_id: Some(noteable_id),
        noteable_type,
        original_position: None,
        position: None,
        project_id: subject.project.id,
        resolved_at: note.resolved_at.map(date),
        resolved_by_id: note.resolved_by_id,
        resolved_by_push: None,
        st_diff: None,
        system: note.system,
        r#type: None,
        updated_at: date(note.updated_at),
        updated_by_id: note.updated_by_id,
        description: with_absolute_images(&note.body, &subject.web_url()),
        url,
        note: note.body,
    }
}

/// Returns the discussion ID of a note outside of a thread.
fn discussion(kind: &str, id: i64) -> String {
    let mut digest = secrets::digest(&format!("{kind} {id}"));
    digest.truncate(40);
    digest
}

async fn on_commit(backend: &Backend, subject: &PayloadContext) -> Result<NotePayload> {
    let missing = || Error::internal("the comment of the event does not exist");
    let id = subject.event.target_id.ok_or_else(missing)?;
    let found = commit_comments::Entity::find_by_id(id).one(backend.database.read());
    let comment = found.await?.ok_or_else(missing)?;
    let sha = oid(&comment.sha).ok_or_else(missing)?;
    let commit = subject.repository.commit(sha).await?;
    let change = match &comment.path {
        Some(path) => change_of(subject, sha, path).await,
        None => None,
    };
    Ok(NotePayload {
        object_kind: "note",
        event_type: "note",
        user: subject.user_part(),
        project_id: subject.project.id,
        project: subject.project_part(),
        object_attributes: attributes(subject, comment, change),
        repository: subject.repository_part(false),
        on: NoteableAttributes::Commit(Box::new(subject.commit_part(commit, None))),
    })
}

fn attributes(
    subject: &PayloadContext,
    comment: commit_comments::Model,
    change: Option<DiffEntry>,
) -> NoteAttributes {
    let line_code = change.as_ref().and_then(|change| line_code(change, &comment));
    let created_at = date(comment.created_at);
    NoteAttributes {
        attachment: None,
        author_id: comment.author_id,
        change_position: None,
        created_at: created_at.clone(),
        discussion_id: discussion("commit comment", comment.id),
        id: comment.id,
        line_code,
        noteable_id: None,
        noteable_type: "Commit",
        original_position: None,
        position: None,
        project_id: comment.project_id,
        resolved_at: None,
        resolved_by_id: None,
        resolved_by_push: None,
        st_diff: change.map(Into::into),
        system: false,
        r#type: None,
        updated_at: created_at,
        updated_by_id: None,
        description: with_absolute_images(&comment.note, &subject.web_url()),
        url: format!("{}#note_{}", subject.commit_url(&comment.sha), comment.id),
        commit_id: Some(comment.sha),
        note: comment.note,
    }
}

/// Returns the diff of one file, or `None` if Git cannot compute it any more.
async fn change_of(subject: &PayloadContext, commit: Oid, path: &str) -> Option<DiffEntry> {
    let diff = subject.repository.diff_commit(commit).await.ok()?;
    let mut entries = diff.entries.into_iter();
    entries.find(|entry| entry.new_path == path || entry.old_path == path)
}

/// Returns the line code of the commented line.
fn line_code(change: &DiffEntry, comment: &commit_comments::Model) -> Option<String> {
    let side = match comment.line_type? {
        LineType::New => LineSide::New,
        LineType::Old => LineSide::Old,
    };
    change.line_code(u32::try_from(comment.line?).ok()?, side)
}

impl From<DiffEntry> for LineDiff {
    fn from(entry: DiffEntry) -> Self {
        Self {
            diff: entry.diff,
            new_path: entry.new_path,
            old_path: entry.old_path,
            a_mode: entry.a_mode,
            b_mode: entry.b_mode,
            new_file: entry.new_file,
            renamed_file: entry.renamed_file,
            deleted_file: entry.deleted_file,
        }
    }
}

static IMAGE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(!\[[^\]]*\]\()(/uploads/[^)\s]+)").ok());

/// Converts the URLs of uploaded images in a text to absolute ones.
fn with_absolute_images(text: &str, web_url: &str) -> String {
    match &*IMAGE {
        Some(image) => image
            .replace_all(text, |found: &regex::Captures<'_>| {
                format!("{}{web_url}{}", &found[1], &found[2])
            })
            .into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::with_absolute_images;

    #[test]
    fn uploaded_images_get_absolute_urls() {
        let text = "See ![a](/uploads/1/a.png), ![b](http://x/b.png) and [c](/uploads/1/c.txt)";
        assert_eq!(
            with_absolute_images(text, "http://h/p/q"),
            "See ![a](http://h/p/q/uploads/1/a.png), ![b](http://x/b.png) and [c](/uploads/1/c.txt)"
        );
    }
}
