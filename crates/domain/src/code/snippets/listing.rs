//! Reads of snippets with their authors.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, Select};
use storage::entities::snippets::{self, Column, Entity, Model};
use storage::entities::{Visibility, now, snippet_contents, users};

use super::{Home, find, missing};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;
use crate::secrets;

/// A snippet with its author and project path.
#[derive(Debug, Clone)]
pub struct Row {
    /// The snippet.
    pub snippet: Model,
    /// The author.
    pub author: users::Model,
    /// The full path of its project, if any.
    pub project_path: Option<String>,
}

/// The content of a snippet, as a file.
#[derive(Debug, Clone)]
pub struct Raw {
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
) -> Result<Page<Row>> {
    let home = Home::Project(access);
    home.admit()?;
    let visible = snippets::visible(access.caller.viewer(), now().date_naive());
    let wanted = Entity::find().filter(home.holds()).filter(visible);
    list(backend, home, wanted, page).await
}

/// Lists the caller's personal snippets, newest first.
///
/// # Errors
/// Returns `Unauthorized` without a caller.
pub async fn list_own(backend: &Backend, caller: &Caller, page: &PageRequest) -> Result<Page<Row>> {
    let (home, author) = (Home::Personal(caller), caller.signed_in()?.id);
    let wanted = Entity::find()
        .filter(Column::AuthorId.eq(author))
        .filter(home.holds());
    list(backend, home, wanted, page).await
}

/// Lists the public personal snippets, newest first.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list_public(backend: &Backend, caller: &Caller, page: &PageRequest) -> Result<Page<Row>> {
    let home = Home::Personal(caller);
    let public = Column::Visibility.eq(Visibility::Public);
    let wanted = Entity::find().filter(public).filter(home.holds());
    list(backend, home, wanted, page).await
}

async fn list(
    backend: &Backend,
    home: Home<'_>,
    wanted: Select<Entity>,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let db = backend.database.read();
    let found = page_of(db, wanted.order_by_desc(Column::Id), page).await?;
    Ok(Page {
        items: decorate(db, home, found.items).await?,
        rest: found.rest,
    })
}

/// Returns a snippet.
///
/// # Errors
/// Returns `NotFound` if the snippet does not exist or is not visible, and `Forbidden` if the snippets of the
/// project are disabled for the caller.
pub async fn read(backend: &Backend, home: Home<'_>, id: i64) -> Result<Row> {
    home.admit()?;
    let db = backend.database.read();
    let snippet = find(db, home, id).await?;
    of_one(db, home, snippet).await
}

/// Returns the content of a snippet.
///
/// # Errors
/// Returns the errors of [`read`].
pub async fn content(backend: &Backend, home: Home<'_>, id: i64) -> Result<Raw> {
    home.admit()?;
    let db = backend.database.read();
    let snippet = find(db, home, id).await?;
    let content = snippet_contents::of(db, id).await?.ok_or_else(missing)?;
    Ok(Raw {
        file_name: snippet.file_name,
        digest: secrets::digest(&content),
        content,
    })
}

/// Returns a snippet with its author.
///
/// # Errors
/// Returns `NotFound` if it was deleted with its author.
pub(super) async fn of_one(db: &impl ConnectionTrait, home: Home<'_>, snippet: Model) -> Result<Row> {
    let rows = decorate(db, home, vec![snippet]).await?;
    rows.into_iter().next().ok_or_else(missing)
}

/// Loads the authors of a page of snippets.
async fn decorate(db: &impl ConnectionTrait, home: Home<'_>, found: Vec<Model>) -> Result<Vec<Row>> {
    let authors = users::Entity::find()
        .filter(users::Column::Id.is_in(found.iter().map(|snippet| snippet.author_id)))
        .all(db)
        .await?;
    let authors: HashMap<i64, users::Model> = authors.into_iter().map(|user| (user.id, user)).collect();
    let rows = found.into_iter().filter_map(|snippet| {
        Some(Row {
            // A snippet whose author was deleted since the page was read is omitted.
            author: authors.get(&snippet.author_id)?.clone(),
            project_path: home.project_path(),
            snippet,
        })
    });
    Ok(rows.collect())
}
