//! Creates, updates and deletes snippets.

use std::collections::BTreeMap;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter,
};
use storage::database::Violation;
use storage::entities::snippets::{ActiveModel, Column, Entity, Model};
use storage::entities::{Visibility, now, snippet_contents};

use super::listing::{Row, of_one};
use super::{Home, find, lock};
use crate::instance::settings;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::{Backend, preconditions};

/// A file of a new snippet.
#[derive(Debug, Clone)]
pub struct NewFile {
    /// The file name.
    pub name: String,
    /// The content.
    pub content: String,
}

/// Attributes of a new snippet.
#[derive(Debug, Clone)]
pub struct NewSnippet {
    /// The title.
    pub title: String,
    /// The files; exactly one is supported.
    pub files: Vec<NewFile>,
    /// The description.
    pub description: Option<String>,
    /// The visibility; private by default.
    pub visibility: Option<Visibility>,
}

/// A change of a snippet file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAction {
    /// Replace the content.
    Update,
    /// Rename the file.
    Move,
    /// Add a file.
    Create,
    /// Delete the file.
    Delete,
}

/// Change of a file of a snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// The action.
    pub action: FileAction,
    /// The name, after a rename the new one.
    pub name: Option<String>,
    /// The name before a rename.
    pub previous: Option<String>,
    /// The content.
    pub content: Option<String>,
}

/// Changes of a snippet; absent ones are unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// The title.
    pub title: Option<String>,
    /// The file name.
    pub file_name: Option<String>,
    /// The content.
    pub content: Option<String>,
    /// Name and content, in the form of file changes.
    pub files: Vec<FileChange>,
    /// The description.
    pub description: Patch<String>,
    /// The visibility.
    pub visibility: Option<Visibility>,
}

/// Creates a snippet.
///
/// # Errors
/// Returns a validation error for blank attributes and for a restricted visibility. Returns `Forbidden` for
/// external users outside projects, and if the snippets of the project are disabled for the caller.
pub async fn create(backend: &Backend, home: Home<'_>, new: NewSnippet) -> Result<Row> {
    home.admit()?;
    let caller = home.caller();
    let author = caller.signed_in()?;
    if author.external && matches!(home, Home::Personal(_)) {
        return Err(Error::forbidden());
    }
    let [file] = <[NewFile; 1]>::try_from(new.files).map_err(|_| one_file())?;
    check_filled([
        ("title", Some(&new.title)),
        ("file_name", Some(&file.name)),
        ("content", Some(&file.content)),
    ])?;
    let visibility = new.visibility.unwrap_or(Visibility::Private);
    settings::get(backend)
        .await?
        .check_visibility(caller, visibility)?;
    let at = now();
    let row = ActiveModel {
        project_id: Set(match home {
            Home::Personal(_) => None,
            Home::Project(access) => Some(access.project.id),
        }),
        author_id: Set(author.id),
        title: Set(new.title.trim().to_owned()),
        description: Set(new.description.filter(|text| !text.is_empty())),
        file_name: Set(file.name.trim().to_owned()),
        visibility: Set(visibility),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let snippet = backend
        .database
        .transaction(async |transaction| {
            let snippet = row.insert(transaction).await.map_err(refused)?;
            let content = snippet_contents::ActiveModel {
                snippet_id: Set(snippet.id),
                content: Set(file.content),
                ..Default::default()
            };
            snippet_contents::Entity::insert(content)
                .exec_without_returning(transaction)
                .await?;
            Ok::<_, Error>(snippet)
        })
        .await?;
    of_one(backend.database.read(), home, snippet).await
}

/// Updates a snippet.
///
/// # Errors
/// Returns `NotFound` if the snippet is not visible, and `Forbidden` unless the caller is its author or a
/// Maintainer of the project. Returns a validation error as [`create`], and if no attribute is given.
pub async fn edit(backend: &Backend, home: Home<'_>, id: i64, change: Change) -> Result<Row> {
    if change == Change::default() {
        return Err(Error::no_parameters(&[
            "title",
            "file_name",
            "content",
            "files",
            "description",
            "visibility",
        ]));
    }
    home.admit()?;
    let caller = home.caller();
    let found = find(backend.database.read(), home, id).await?;
    home.check_may_change(&found)?;
    if !change.files.is_empty() && (change.file_name.is_some() || change.content.is_some()) {
        return Err(Error::parameter(
            "files cannot be combined with file_name and content",
        ));
    }
    check_filled([
        ("title", change.title.as_ref()),
        ("file_name", change.file_name.as_ref()),
        ("content", change.content.as_ref()),
    ])?;
    if let Some(visibility) = change.visibility.filter(|wanted| *wanted != found.visibility) {
        settings::get(backend)
            .await?
            .check_visibility(caller, visibility)?;
    }
    let snippet = backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, home, id).await?;
            let change = with_file(change, &before)?;
            enter(transaction, before, change).await
        })
        .await?;
    of_one(backend.database.read(), home, snippet).await
}

/// Merges the file changes into the other changes. A snippet has exactly one file.
///
/// # Errors
/// Returns a validation error for another file or several, for adding or deleting a file, for an empty
/// change, and for blank values.
fn with_file(mut change: Change, before: &Model) -> Result<Change> {
    if change.files.is_empty() {
        return Ok(change);
    }
    let files = std::mem::take(&mut change.files);
    let [file] = <[FileChange; 1]>::try_from(files).map_err(|_| one_file())?;
    let known = |name: Option<&String>| match name.is_none_or(|name| name.trim() == before.file_name) {
        true => Ok(()),
        false => Err(Error::attribute("files", "must refer to the file of the snippet")),
    };
    match file.action {
        FileAction::Create | FileAction::Delete => return Err(one_file()),
        FileAction::Update => {
            known(file.name.as_ref())?;
            if file.content.is_none() {
                return Err(Error::attribute("files", "must include content"));
            }
        }
        FileAction::Move => {
            known(file.previous.as_ref())?;
            if file.name.is_none() {
                return Err(Error::attribute("files", "must include file_path"));
            }
            change.file_name = file.name;
        }
    }
    change.content = file.content;
    check_filled([
        ("file_name", change.file_name.as_ref()),
        ("content", change.content.as_ref()),
    ])?;
    Ok(change)
}

async fn enter(db: &impl ConnectionTrait, before: Model, change: Change) -> Result<Model> {
    let id = before.id;
    let mut row = before.into_active_model();
    if let Some(title) = change.title {
        row.title = Set(title.trim().to_owned());
    }
    if let Some(name) = change.file_name {
        row.file_name = Set(name.trim().to_owned());
    }
    if !change.description.is_keep() {
        row.description = Set(change.description.into_value().filter(|text| !text.is_empty()));
    }
    if let Some(visibility) = change.visibility {
        row.visibility = Set(visibility);
    }
    row.updated_at = Set(now());
    if let Some(content) = change.content {
        snippet_contents::Entity::update_many()
            .col_expr(snippet_contents::Column::Content, Expr::value(content))
            .filter(snippet_contents::Column::SnippetId.eq(id))
            .exec(db)
            .await?;
    }
    Ok(row.update(db).await?)
}

/// Deletes a snippet with its notes.
///
/// # Errors
/// Returns `NotFound` if the snippet is not visible, `Forbidden` as [`edit`], and `PreconditionFailed` if it
/// was modified after the given date.
pub async fn delete(
    backend: &Backend,
    home: Home<'_>,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    home.admit()?;
    backend
        .database
        .transaction(async |transaction| {
            let snippet = lock(transaction, home, id).await?;
            home.check_may_change(&snippet)?;
            preconditions::check_unmodified_since(unmodified_since, snippet.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Deletes all snippets of a user, because no other user is responsible for them.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn remove_all_of(db: &impl ConnectionTrait, user_id: i64) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(Column::AuthorId.eq(user_id))
        .exec(db)
        .await?;
    Ok(())
}

/// Refuses blank values, and reports all of them.
fn check_filled<const N: usize>(texts: [(&'static str, Option<&String>); N]) -> Result<()> {
    let blank = texts
        .into_iter()
        .filter(|(_, text)| text.is_some_and(|text| text.trim().is_empty()));
    let faults: BTreeMap<_, _> = blank
        .map(|(name, _)| (name.into(), vec!["can't be blank".into()]))
        .collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::InvalidAttributes(faults)),
    }
}

fn one_file() -> Error {
    Error::attribute("files", "must contain exactly one file")
}

/// Maps the error of an insert.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // The project was deleted concurrently.
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    }
}
