//! Making, changing and removing snippets.

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
use crate::error::{Error, Result};
use crate::services::kernel::patch::Patch;
use crate::services::{Backend, preconditions, settings};

/// A file of a new snippet.
#[derive(Debug, Clone)]
pub struct NewFile {
    /// The name that its content is to be kept under.
    pub name: String,
    /// What it holds.
    pub content: String,
}

/// A new snippet.
#[derive(Debug, Clone)]
pub struct NewSnippet {
    /// What it is about.
    pub title: String,
    /// What it holds: one file.
    pub files: Vec<NewFile>,
    /// What there is to say.
    pub description: Option<String>,
    /// Who may see it; few when absent.
    pub visibility: Option<Visibility>,
}

/// What is done to a file of a snippet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAction {
    /// Its content changes.
    Update,
    /// It is called otherwise.
    Move,
    /// There is to be another.
    Create,
    /// It is to go.
    Delete,
}

/// What changes of a file of a snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// What is done.
    pub action: FileAction,
    /// The name, after a move the new one.
    pub name: Option<String>,
    /// The name before a move.
    pub previous: Option<String>,
    /// What it holds.
    pub content: Option<String>,
}

/// What changes of a snippet; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// What it is about.
    pub title: Option<String>,
    /// The name that its content is to be kept under.
    pub file_name: Option<String>,
    /// What it holds.
    pub content: Option<String>,
    /// Name and content, told as a change of a file.
    pub files: Vec<FileChange>,
    /// What there is to say.
    pub description: Patch<String>,
    /// Who may see it.
    pub visibility: Option<Visibility>,
}

/// Makes a snippet.
///
/// # Errors
/// 400 for what is blank and for a visibility that administrators restricted, 403 for external users outside of projects,
/// and where the snippets of the project are not there for the caller.
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
    settings::read(backend)
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

/// Changes a snippet.
///
/// # Errors
/// 404, 403 for others than who made it and Maintainers of its project, 400 as [`create`] and for a change of nothing.
pub async fn edit(backend: &Backend, home: Home<'_>, id: i64, change: Change) -> Result<Row> {
    if change == Change::default() {
        return Err(Error::nothing_sent(&[
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
        settings::read(backend)
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

/// The change with what it says of the one file that the snippet holds.
///
/// # Errors
/// 400 where it is about another file or several, would make or remove one, changes nothing of it, or leaves it blank.
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

/// Removes a snippet with its notes.
///
/// # Errors
/// 404, 403 as [`edit`], and 412 when it changed after the caller's date.
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
            preconditions::unmodified_since(unmodified_since, snippet.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Removes the snippets that a user made, wherever they are: nobody else answers for them.
///
/// # Errors
/// Whatever the database reports.
pub async fn remove_all_of(db: &impl ConnectionTrait, user_id: i64) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(Column::AuthorId.eq(user_id))
        .exec(db)
        .await?;
    Ok(())
}

/// Refuses what is there and blank, all of it at once.
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

/// Why a row was not written.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // The project went away in the meantime.
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    }
}
