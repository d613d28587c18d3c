//! To-do items with their targets, loaded in a fixed number of statements for a page.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::todos::{Model, TodoTarget};
use storage::entities::users::UserSummary;
use storage::entities::{namespaces, notes, projects};

use crate::discussion::todos::targets::{TodoTargetDetail, TodoTargetDetails};
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::all_with_texts;
use crate::kernel::{Backend, urls};
use crate::spaces::namespaces::full_names;

/// The project of a to-do item.
#[derive(Debug, Clone)]
pub struct TodoProject {
    /// The project.
    pub project: projects::Model,
    /// The full path.
    pub path: String,
    /// The names of its parent namespaces, separated by ` / `.
    pub namespace_name: String,
}

/// A to-do item with its associations.
#[derive(Debug, Clone)]
pub struct TodoDetail {
    /// The to-do item.
    pub todo: Model,
    /// The project; `None` for an epic, which has a group instead.
    pub project: Option<TodoProject>,
    /// The user who caused it; `None` if the user was deleted.
    pub author: Option<UserSummary>,
    /// The target.
    pub target: TodoTargetDetail,
    /// The text of the note that caused it.
    pub note_body: Option<String>,
}

/// Loads the associations of a to-do item after a write was committed. Never fails because too little memory is left.
///
/// # Errors
/// Returns `NotFound` if the target was deleted.
pub(super) async fn load_written(backend: &Backend, caller: &Caller, todo: Model) -> Result<TodoDetail> {
    let (db, caller) = (backend.database.read(), caller.after_commit());
    let detail = details(db, &caller, vec![todo]).await?.pop();
    detail.ok_or_else(|| Error::not_found(""))
}

/// Loads the associations of a page of items; items whose targets were deleted since are omitted.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left for the targets, or an error if a database query fails.
pub(super) async fn details(
    db: &impl ConnectionTrait,
    caller: &Caller,
    todos: Vec<Model>,
) -> Result<Vec<TodoDetail>> {
    if todos.is_empty() {
        return Ok(Vec::new());
    }
    let projects = projects_by_id(db, todos.iter().filter_map(|todo| todo.project_id)).await?;
    let note_bodies = note_bodies(db, caller, todos.iter().filter_map(|todo| todo.note_id)).await?;
    let paths = projects.iter().map(|(id, project)| (*id, project.path.clone()));
    let keys: Vec<TodoTarget> = todos.iter().filter_map(Model::target).collect();
    let authors = todos.iter().filter_map(|todo| todo.author_id).collect();
    let targets = TodoTargetDetails::load(db, caller, &keys, paths.collect(), authors).await?;
    // Many items can have one target or note, and each item contains a copy.
    let shown: usize = todos
        .iter()
        .map(|todo| {
            let target = todo.target().and_then(|target| targets.get(target));
            let note = todo.note_id.and_then(|id| note_bodies.get(&id));
            target.map_or(0, TodoTargetDetail::text_bytes) + note.map_or(0, String::len)
        })
        .sum();
    caller.reserve_memory(shown as u64)?;
    let details = todos.into_iter().filter_map(|todo| {
        Some(TodoDetail {
            project: match todo.project_id {
                Some(id) => Some(projects.get(&id)?.clone()),
                None => None,
            },
            author: targets.user(todo.author_id),
            // A target may have several items.
            target: targets.get(todo.target()?)?.clone(),
            note_body: todo.note_id.and_then(|id| note_bodies.get(&id).cloned()),
            todo,
        })
    });
    Ok(details.collect())
}

/// Returns the projects of items, by ID.
async fn projects_by_id(
    db: &impl ConnectionTrait,
    ids: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, TodoProject>> {
    let ids: Vec<i64> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = projects::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(projects::Column::Id.is_in(ids))
        .all(db)
        .await?;
    let names = full_names(db, found.iter().map(|(project, _)| project.namespace_id)).await?;
    let projects = found.into_iter().filter_map(|(project, namespace)| {
        let todo_project = TodoProject {
            path: urls::project_path(&namespace?, &project),
            namespace_name: names.get(&project.namespace_id)?.clone(),
            project,
        };
        Some((todo_project.project.id, todo_project))
    });
    Ok(projects.collect())
}

/// Returns the texts of notes, by ID.
async fn note_bodies(
    db: &impl ConnectionTrait,
    caller: &Caller,
    ids: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let ids: Vec<i64> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let notes = notes::Entity::find().filter(notes::Column::Id.is_in(ids));
    let notes = all_with_texts(db, caller, notes).await?.into_iter();
    Ok(notes.map(|note| (note.id, note.body)).collect())
}
