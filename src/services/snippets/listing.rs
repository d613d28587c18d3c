//! Snippets that are read, with who made them.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, Select};
use storage::entities::snippets::{self, Column, Entity, Model};
use storage::entities::{Visibility, now, snippet_contents, users};

use super::{Home, find, missing};
use crate::error::Result;
use crate::secrets;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::authentication::Caller;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::page_of;

/// A snippet with what belongs to it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The snippet.
    pub snippet: Model,
    /// Who made it.
    pub author: users::Model,
    /// The full path of its project, if it is of one.
    pub project_path: Option<String>,
}

/// What a snippet holds, as a file.
#[derive(Debug, Clone)]
pub struct Raw {
    /// The name of the file.
    pub file_name: String,
    /// What the content is known by.
    pub digest: String,
    /// What it holds.
    pub content: String,
}

/// A page of the snippets of a project that the caller may see, the newest first.
///
/// # Errors
/// 403 where the snippets of the project are not there for the caller.
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

/// A page of the snippets that the caller made outside of projects, the newest first.
///
/// # Errors
/// 401 without a caller.
pub async fn list_own(backend: &Backend, caller: &Caller, page: &PageRequest) -> Result<Page<Row>> {
    let (home, author) = (Home::Personal(caller), caller.signed_in()?.id);
    let wanted = Entity::find()
        .filter(Column::AuthorId.eq(author))
        .filter(home.holds());
    list(backend, home, wanted, page).await
}

/// A page of the snippets outside of projects that everybody may see, the newest first.
///
/// # Errors
/// Whatever the database reports.
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

/// One snippet.
///
/// # Errors
/// 404, also where the caller may not see it, and 403 where the snippets of the project are not there for the caller.
pub async fn read(backend: &Backend, home: Home<'_>, id: i64) -> Result<Row> {
    home.admit()?;
    let db = backend.database.read();
    let snippet = find(db, home, id).await?;
    of_one(db, home, snippet).await
}

/// What a snippet holds.
///
/// # Errors
/// As [`read`].
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

/// One snippet with who made it.
///
/// # Errors
/// 404 where it went away with that user.
pub(super) async fn of_one(db: &impl ConnectionTrait, home: Home<'_>, snippet: Model) -> Result<Row> {
    let rows = decorate(db, home, vec![snippet]).await?;
    rows.into_iter().next().ok_or_else(missing)
}

/// Adds what belongs to snippets, for the whole page at once.
async fn decorate(db: &impl ConnectionTrait, home: Home<'_>, found: Vec<Model>) -> Result<Vec<Row>> {
    let authors = users::Entity::find()
        .filter(users::Column::Id.is_in(found.iter().map(|snippet| snippet.author_id)))
        .all(db)
        .await?;
    let authors: HashMap<i64, users::Model> = authors.into_iter().map(|user| (user.id, user)).collect();
    let rows = found.into_iter().filter_map(|snippet| {
        Some(Row {
            // Who was removed since the page was read takes the snippet along.
            author: authors.get(&snippet.author_id)?.clone(),
            project_path: home.project_path(),
            snippet,
        })
    });
    Ok(rows.collect())
}
