//! Comments on commits and on the lines they change.

use git::{LineSide, Oid, Repository};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
};
use storage::entities::commit_comments;
use storage::entities::large_texts::read_sized_joined;
use storage::entities::project_hooks::HookEvent;
use storage::entities::{now, users};

use crate::kernel::page::{Page, PageRequest};
pub use storage::entities::commit_comments::LineType;

use crate::activity::events::{self, EventAction, EventTarget, EventTargetType, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::{count_for_page, with_texts};

/// A comment on a commit, and its author unless deleted.
pub type CommitCommentDetail = (commit_comments::Model, Option<users::Model>);

/// Attributes of a new comment.
#[derive(Debug, Clone)]
pub struct NewComment {
    /// Text of the comment.
    pub note: String,
    /// Path of the file.
    pub path: Option<String>,
    /// Line number.
    pub line: Option<i64>,
    /// Side of the change; the new side if absent.
    pub side: Option<LineType>,
}

/// Returns a page of the comments on a commit, oldest first.
///
/// # Errors
/// Returns `Error::NotFound` if the commit does not exist.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    page: &PageRequest,
) -> Result<Page<CommitCommentDetail>> {
    let repository = repository_access::repository(backend, access)?;
    let sha = repository.resolve_commit(revision).await?.to_string();
    let database = backend.database.read();
    let rows = commit_comments::on_commit(access.project.id, &sha)
        .offset(page.offset())
        .limit(page.limit().saturating_add(1))
        .into_query();
    let rows = read_sized_joined::<commit_comments::Entity, users::Entity>(database, rows).await?;
    let all = commit_comments::Entity::find()
        .filter(commit_comments::Column::ProjectId.eq(access.project.id))
        .filter(commit_comments::Column::Sha.eq(sha));
    let total = count_for_page(database, page, rows.len(), all.into_query()).await?;
    let Page { items, rest } = Page::new(page, rows, total);
    let items = with_texts::<commit_comments::Entity, _>(database, &access.caller, items).await?;
    Ok(Page { items, rest })
}

/// Creates a comment on a commit. A path or line that the commit does not change is ignored.
///
/// # Errors
/// Returns `Error::Forbidden` if the caller may not read the code. Returns `Error::NotFound` if the commit
/// does not exist. Returns `Error::InvalidAttributes` if the note is blank.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    new: NewComment,
) -> Result<CommitCommentDetail> {
    let repository = repository_access::repository(backend, access)?;
    if !access.can_read_code() {
        return Err(Error::forbidden());
    }
    let author = access.caller.signed_in()?;
    if new.note.trim().is_empty() {
        return Err(Error::attribute("note", "can't be blank"));
    }
    let commit = repository.resolve_commit(revision).await?;
    let side = new.side.unwrap_or(LineType::New);
    let line = match (&new.path, new.line) {
        (Some(path), Some(line)) => changed_line(&repository, commit, path, line, side).await?,
        _ => None,
    };
    let row = commit_comments::ActiveModel {
        project_id: Set(access.project.id),
        sha: Set(commit.to_string()),
        author_id: Set(Some(author.id)),
        note: Set(new.note),
        path: Set(new.path.filter(|_| line.is_some())),
        line: Set(line),
        line_type: Set(line.map(|_| side)),
        created_at: Set(now()),
        ..Default::default()
    };
    let title = repository.commit(commit).await?.title().to_owned();
    let comment = backend
        .database
        .transaction(async |transaction| {
            let comment = row.insert(transaction).await?;
            let event = NewEvent {
                target: Some(EventTarget {
                    kind: EventTargetType::CommitNote,
                    id: comment.id,
                    iid: None,
                    title: Some(title),
                }),
                webhook_target: Some(WebhookTarget {
                    kind: HookEvent::Note,
                    branch: None,
                }),
                ..NewEvent::new(access.project.id, author.id, EventAction::Commented)
            };
            events::record(transaction, event).await?;
            Ok::<_, Error>(comment)
        })
        .await?;
    Ok((comment, Some(author.clone())))
}

/// Returns the line number to store, or `None` if the commit does not change the line.
async fn changed_line(
    repository: &Repository,
    commit: Oid,
    path: &str,
    line: i64,
    side: LineType,
) -> Result<Option<i32>> {
    let (Ok(line_number), Ok(stored_line)) = (u32::try_from(line), i32::try_from(line)) else {
        return Ok(None);
    };
    let side = match side {
        LineType::New => LineSide::New,
        LineType::Old => LineSide::Old,
    };
    let changed = repository.changes_line(commit, path, line_number, side).await?;
    Ok(changed.then_some(stored_line))
}
