//! Creates, updates and deletes snippets.

use std::collections::BTreeMap;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter,
};
use storage::database::Violation;
use storage::entities::snippets::{ActiveModel, Entity, Model};
use storage::entities::{Visibility, now, row_changes, snippet_contents};

use super::listing::{SnippetDetail, load_detail};
use super::{SnippetScope, find, lock};
use crate::instance::settings;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::{Backend, preconditions};

/// A file of a new snippet.
#[derive(Debug, Clone)]
pub struct NewSnippetFile {
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
    pub files: Vec<NewSnippetFile>,
    /// The description.
    pub description: Option<String>,
    /// The visibility; private by default.
    pub visibility: Option<Visibility>,
}

/// Kind of a change of a snippet file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnippetFileAction {
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
pub struct SnippetFileUpdate {
    /// The action.
    pub action: SnippetFileAction,
    /// The name, after a rename the new one.
    pub name: Option<String>,
    /// The name before a rename.
    pub previous_name: Option<String>,
    /// The content.
    pub content: Option<String>,
}

/// Changes of a snippet; absent ones are unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnippetUpdate {
    /// The title.
    pub title: Option<String>,
    /// The file name.
    pub file_name: Option<String>,
    /// The content.
    pub content: Option<String>,
    /// Name and content, in the form of file changes.
    pub files: Vec<SnippetFileUpdate>,
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
pub async fn create(backend: &Backend, scope: SnippetScope<'_>, new: NewSnippet) -> Result<SnippetDetail> {
    scope.check_feature()?;
    let caller = scope.caller();
    let author = caller.signed_in()?;
    if author.external && matches!(scope, SnippetScope::Personal(_)) {
        return Err(Error::forbidden());
    }
    let [file] = <[NewSnippetFile; 1]>::try_from(new.files).map_err(|_| file_count_error())?;
    check_not_blank([
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
        project_id: Set(match scope {
            SnippetScope::Personal(_) => None,
            SnippetScope::Project(access) => Some(access.project.id),
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
            let snippet = row.insert(transaction).await.map_err(insert_error)?;
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
    load_detail(backend.database.read(), scope, snippet).await
}

/// Updates a snippet.
///
/// # Errors
/// Returns `NotFound` if the snippet is not visible, and `Forbidden` unless the caller is its author or a
/// Maintainer of the project. Returns a validation error as [`create`], and if no attribute is given.
pub async fn update(
    backend: &Backend,
    scope: SnippetScope<'_>,
    id: i64,
    update: SnippetUpdate,
) -> Result<SnippetDetail> {
    if update == SnippetUpdate::default() {
        return Err(Error::no_parameters(&[
            "title",
            "file_name",
            "content",
            "files",
            "description",
            "visibility",
        ]));
    }
    scope.check_feature()?;
    let caller = scope.caller();
    let current = find(backend.database.read(), scope, id).await?;
    scope.check_can_update(&current)?;
    if !update.files.is_empty() && (update.file_name.is_some() || update.content.is_some()) {
        return Err(Error::parameter(
            "files cannot be combined with file_name and content",
        ));
    }
    check_not_blank([
        ("title", update.title.as_ref()),
        ("file_name", update.file_name.as_ref()),
        ("content", update.content.as_ref()),
    ])?;
    if let Some(visibility) = update
        .visibility
        .filter(|visibility| *visibility != current.visibility)
    {
        settings::get(backend)
            .await?
            .check_visibility(caller, visibility)?;
    }
    let snippet = backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, scope, id).await?;
            let update = merge_file_update(update, &before)?;
            save(transaction, before, update).await
        })
        .await?;
    load_detail(backend.database.read(), scope, snippet).await
}

/// Merges the file changes into the other changes. A snippet has exactly one file.
///
/// # Errors
/// Returns a validation error for another file or several, for adding or deleting a file, for an empty
/// change, and for blank values.
fn merge_file_update(mut update: SnippetUpdate, before: &Model) -> Result<SnippetUpdate> {
    if update.files.is_empty() {
        return Ok(update);
    }
    let files = std::mem::take(&mut update.files);
    let [file] = <[SnippetFileUpdate; 1]>::try_from(files).map_err(|_| file_count_error())?;
    let check_name = |name: Option<&String>| match name.is_none_or(|name| name.trim() == before.file_name) {
        true => Ok(()),
        false => Err(Error::attribute("files", "must refer to the file of the snippet")),
    };
    match file.action {
        SnippetFileAction::Create | SnippetFileAction::Delete => return Err(file_count_error()),
        SnippetFileAction::Update => {
            check_name(file.name.as_ref())?;
            if file.content.is_none() {
                return Err(Error::attribute("files", "must include content"));
            }
        }
        SnippetFileAction::Move => {
            check_name(file.previous_name.as_ref())?;
            if file.name.is_none() {
                return Err(Error::attribute("files", "must include file_path"));
            }
            update.file_name = file.name;
        }
    }
    update.content = file.content;
    check_not_blank([
        ("file_name", update.file_name.as_ref()),
        ("content", update.content.as_ref()),
    ])?;
    Ok(update)
}

/// Stores the changes, or nothing if no value differs.
async fn save(db: &impl ConnectionTrait, before: Model, update: SnippetUpdate) -> Result<Model> {
    let mut row = before.clone().into_active_model();
    if let Some(title) = update.title {
        row.title = Set(title.trim().to_owned());
    }
    if let Some(name) = update.file_name {
        row.file_name = Set(name.trim().to_owned());
    }
    if !update.description.is_keep() {
        row.description = Set(update.description.into_value().filter(|text| !text.is_empty()));
    }
    if let Some(visibility) = update.visibility {
        row.visibility = Set(visibility);
    }
    if let Some(content) = update.content {
        let changed = snippet_contents::Entity::update_many()
            .col_expr(snippet_contents::Column::Content, Expr::value(content.as_str()))
            .filter(snippet_contents::Column::SnippetId.eq(before.id))
            .filter(snippet_contents::Column::Content.ne(content.as_str()))
            .exec(db)
            .await?;
        if changed.rows_affected > 0 {
            row.updated_at = Set(now());
        }
    }
    Ok(row_changes::update_if_changed(db, &before, row).await?)
}

/// Deletes a snippet with its notes.
///
/// # Errors
/// Returns `NotFound` if the snippet is not visible, `Forbidden` as [`update`], and `PreconditionFailed` if it
/// was modified after the given date.
pub async fn delete(
    backend: &Backend,
    scope: SnippetScope<'_>,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    scope.check_feature()?;
    backend
        .database
        .transaction(async |transaction| {
            let snippet = lock(transaction, scope, id).await?;
            scope.check_can_update(&snippet)?;
            preconditions::check_unmodified_since(unmodified_since, snippet.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Checks that no value is blank, and reports all values that are.
fn check_not_blank<const N: usize>(texts: [(&'static str, Option<&String>); N]) -> Result<()> {
    let blank = texts
        .into_iter()
        .filter(|(_, text)| text.is_some_and(|text| text.trim().is_empty()));
    let errors: BTreeMap<_, _> = blank
        .map(|(name, _)| (name.into(), vec!["can't be blank".into()]))
        .collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Error::InvalidAttributes(errors)),
    }
}

fn file_count_error() -> Error {
    Error::attribute("files", "must contain exactly one file")
}

/// Maps the error of an insert.
fn insert_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        // The project was deleted concurrently.
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    }
}
