//! Reads of snippets with their authors.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use storage::entities::snippets::{self, Column, Entity, Model};
use storage::entities::{Visibility, now, snippet_contents, users};

use super::{SnippetScope, find, snippet_not_found};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::budgets::UNCOUNTED_RESPONSE_BYTES;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{at_or_before, page_with_texts, text_bytes};
use crate::kernel::urls;
use crate::secrets;

/// A snippet with its author and project path.
#[derive(Debug, Clone)]
pub struct SnippetDetail {
    /// The snippet.
    pub snippet: Model,
    /// The author.
    pub author: users::Model,
    /// The full path of its project, if any.
    pub project_path: Option<String>,
}

/// The content of a snippet, as a file.
#[derive(Debug, Clone)]
pub struct SnippetContent {
    /// The file name.
    pub file_name: String,
    /// Digest of the content.
    pub digest: String,
    /// The content.
    pub content: String,
}

/// Lists the snippets of a project that are visible to the caller, newest first.
///
/// # Errors
/// Returns `Forbidden` if the snippets of the project are disabled for the caller.
pub async fn list_of_project(
    backend: &Backend,
    access: &ProjectAccess,
    page: &PageRequest,
) -> Result<Page<SnippetDetail>> {
    let scope = SnippetScope::Project(access);
    scope.check_feature()?;
    let visible = snippets::visible(access.caller.viewer(), now().date_naive());
    let query = Entity::find().filter(scope.condition()).filter(visible);
    list(backend, scope, query, page).await
}

/// Lists the caller's personal snippets, newest first.
///
/// # Errors
/// Returns `Unauthorized` without a caller.
pub async fn list_own(backend: &Backend, caller: &Caller, page: &PageRequest) -> Result<Page<SnippetDetail>> {
    let (scope, author) = (SnippetScope::Personal(caller), caller.signed_in()?.id);
    let query = Entity::find()
        .filter(Column::AuthorId.eq(author))
        .filter(scope.condition());
    list(backend, scope, query, page).await
}

/// Lists the public personal snippets, newest first.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list_public(
    backend: &Backend,
    caller: &Caller,
    page: &PageRequest,
) -> Result<Page<SnippetDetail>> {
    let scope = SnippetScope::Personal(caller);
    let public = Column::Visibility.eq(Visibility::Public);
    let query = Entity::find()
        .filter(public)
        .filter(scope.condition())
        .filter(snippets::has_visible_author());
    list(backend, scope, query, page).await
}

/// Times between which snippets were created.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreationTimes {
    /// The earliest time.
    pub after: Option<DateTime<Utc>>,
    /// The latest time.
    pub before: Option<DateTime<Utc>>,
}

/// Lists the personal and project snippets that are visible to the caller, newest first.
///
/// # Errors
/// Returns `Unauthorized` without a caller.
pub async fn list_visible(
    backend: &Backend,
    caller: &Caller,
    created: CreationTimes,
    page: &PageRequest,
) -> Result<Page<SnippetDetail>> {
    caller.signed_in()?;
    let query = Entity::find()
        .filter(snippets::visible(caller.viewer(), now().date_naive()))
        .filter(
            Condition::all()
                .add_option(created.after.map(|time| Column::CreatedAt.gte(time)))
                .add_option(
                    created
                        .before
                        .map(|time| at_or_before(Column::CreatedAt.into_expr(), time)),
                ),
        );
    let mut found = list(backend, SnippetScope::Personal(caller), query, page).await?;
    let project_ids = found.items.iter().filter_map(|detail| detail.snippet.project_id);
    let paths = urls::project_paths(backend.database.read(), project_ids).await?;
    for detail in &mut found.items {
        let project_id = detail.snippet.project_id;
        detail.project_path = project_id.and_then(|id| paths.get(&id).cloned());
    }
    Ok(found)
}

async fn list(
    backend: &Backend,
    scope: SnippetScope<'_>,
    query: Select<Entity>,
    page: &PageRequest,
) -> Result<Page<SnippetDetail>> {
    let db = backend.database.read();
    let query = query.order_by_desc(Column::Id);
    let snippets = page_with_texts(db, scope.caller(), query, page).await?;
    Ok(Page {
        items: load_details(db, scope, snippets.items).await?,
        rest: snippets.rest,
    })
}

/// Returns a snippet.
///
/// # Errors
/// Returns `NotFound` if the snippet does not exist or is not visible, and `Forbidden` if the snippets of the
/// project are disabled for the caller.
pub async fn get(backend: &Backend, scope: SnippetScope<'_>, id: i64) -> Result<SnippetDetail> {
    scope.check_feature()?;
    let db = backend.database.read();
    let snippet = find(db, scope, id).await?;
    load_detail(db, scope, snippet).await
}

/// Returns the content of a snippet. Reserves the memory of the content before it is read.
///
/// # Errors
/// Returns the errors of [`get`], and `Overloaded` if too little memory is left.
pub async fn get_content(backend: &Backend, scope: SnippetScope<'_>, id: i64) -> Result<SnippetContent> {
    scope.check_feature()?;
    let db = backend.database.read();
    let snippet = find(db, scope, id).await?;
    let content = match content_within(db, id, UNCOUNTED_RESPONSE_BYTES as u64).await? {
        (_, Some(content)) => content,
        (size, None) => {
            scope.caller().reserve_content(size)?;
            let content = snippet_contents::of(db, id)
                .await?
                .ok_or_else(snippet_not_found)?;
            // Content can grow between both statements.
            let growth = (content.len() as u64).saturating_sub(size);
            scope.caller().reserve_memory(growth)?;
            content
        }
    };
    Ok(SnippetContent {
        file_name: snippet.file_name,
        digest: secrets::digest(&content),
        content,
    })
}

/// Returns the size of the content of a snippet in bytes, and the content if it has at most `limit` bytes.
async fn content_within(db: &impl ConnectionTrait, id: i64, limit: u64) -> Result<(u64, Option<String>)> {
    let (content, limit) = (
        snippet_contents::Column::Content,
        i64::try_from(limit).unwrap_or(i64::MAX),
    );
    let is_small = text_bytes(content.into_expr()).lte(limit);
    let small: Expr = Expr::case(is_small, content.into_expr()).into();
    let found: Option<(i64, Option<String>)> = snippet_contents::Entity::find()
        .select_only()
        .column_as(text_bytes(content.into_expr()), "size")
        .column_as(small, "content")
        .filter(snippet_contents::Column::SnippetId.eq(id))
        .into_tuple()
        .one(db)
        .await?;
    let (size, content) = found.ok_or_else(snippet_not_found)?;
    Ok((u64::try_from(size).unwrap_or_default(), content))
}

/// Returns a snippet with its author.
///
/// # Errors
/// Returns `NotFound` if it was deleted with its author.
pub(super) async fn load_detail(
    db: &impl ConnectionTrait,
    scope: SnippetScope<'_>,
    snippet: Model,
) -> Result<SnippetDetail> {
    let details = load_details(db, scope, vec![snippet]).await?;
    details.into_iter().next().ok_or_else(snippet_not_found)
}

/// Loads the authors of a page of snippets.
async fn load_details(
    db: &impl ConnectionTrait,
    scope: SnippetScope<'_>,
    snippets: Vec<Model>,
) -> Result<Vec<SnippetDetail>> {
    let authors = users::Entity::find()
        .filter(users::Column::Id.is_in(snippets.iter().map(|snippet| snippet.author_id)))
        .all(db)
        .await?;
    let authors: HashMap<i64, users::Model> = authors.into_iter().map(|user| (user.id, user)).collect();
    let details = snippets.into_iter().filter_map(|snippet| {
        Some(SnippetDetail {
            // A snippet whose author was deleted since the page was read is omitted.
            author: authors.get(&snippet.author_id)?.clone(),
            project_path: scope.project_path(),
            snippet,
        })
    });
    Ok(details.collect())
}
