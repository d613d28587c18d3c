//! To-do items with their targets, loaded in a fixed number of statements for a page.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::access::Viewer;
use storage::entities::todos::{Model, TodoTarget};
use storage::entities::{namespaces, notes, projects, users};

use crate::discussion::todos::targets::{Thing, Things};
use crate::kernel::error::{Error, Result};
use crate::kernel::{Backend, urls};
use crate::spaces::namespaces::full_names;

/// The project of to-do items.
#[derive(Debug, Clone)]
pub struct Home {
    /// The project.
    pub project: projects::Model,
    /// The full path.
    pub path: String,
    /// The names of its parent namespaces, separated by ` / `.
    pub namespace_name: String,
}

/// A to-do item with its associations.
#[derive(Debug, Clone)]
pub struct Row {
    /// The to-do item.
    pub todo: Model,
    /// The project; `None` for an epic, which has a group instead.
    pub home: Option<Home>,
    /// The user who caused it; `None` if the user was deleted.
    pub author: Option<users::Model>,
    /// The target.
    pub thing: Thing,
    /// The text of the note that caused it.
    pub note: Option<String>,
}

/// Returns a to-do item with its associations.
///
/// # Errors
/// Returns `NotFound` if the target was deleted.
pub(super) async fn of_one(backend: &Backend, viewer: Viewer, todo: Model) -> Result<Row> {
    let found = decorate(backend.database.read(), viewer, vec![todo]).await?.pop();
    found.ok_or_else(|| Error::not_found(""))
}

/// Loads the associations of a page of items; items whose targets were deleted since are omitted.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn decorate(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: Vec<Model>,
) -> Result<Vec<Row>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let homes = homes(db, found.iter().filter_map(|todo| todo.project_id)).await?;
    let notes = texts(db, found.iter().filter_map(|todo| todo.note_id)).await?;
    let paths = homes.iter().map(|(id, home)| (*id, home.path.clone()));
    let targets: Vec<TodoTarget> = found.iter().filter_map(Model::target).collect();
    let authors = found.iter().filter_map(|todo| todo.author_id).collect();
    let things = Things::load(db, viewer, &targets, paths.collect(), authors).await?;
    let rows = found.into_iter().filter_map(|todo| {
        Some(Row {
            home: match todo.project_id {
                Some(id) => Some(homes.get(&id)?.clone()),
                None => None,
            },
            author: things.person(todo.author_id),
            // A target may have several items.
            thing: things.get(todo.target()?)?.clone(),
            note: todo.note_id.and_then(|id| notes.get(&id).cloned()),
            todo,
        })
    });
    Ok(rows.collect())
}

/// Returns the projects of items, by ID.
async fn homes(db: &impl ConnectionTrait, ids: impl Iterator<Item = i64>) -> Result<HashMap<i64, Home>> {
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
    let homes = found.into_iter().filter_map(|(project, namespace)| {
        let home = Home {
            path: urls::project_path(&namespace?, &project),
            namespace_name: names.get(&project.namespace_id)?.clone(),
            project,
        };
        Some((home.project.id, home))
    });
    Ok(homes.collect())
}

/// Returns the texts of notes, by ID.
async fn texts(db: &impl ConnectionTrait, ids: impl Iterator<Item = i64>) -> Result<HashMap<i64, String>> {
    let ids: Vec<i64> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = notes::Entity::find().filter(notes::Column::Id.is_in(ids));
    let found = found.all(db).await?.into_iter();
    Ok(found.map(|note| (note.id, note.body)).collect())
}
