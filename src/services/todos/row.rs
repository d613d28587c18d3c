//! To-do items with what they are about, gathered in a handful of statements however many they are.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::access::Viewer;
use storage::entities::todos::{Model, Target};
use storage::entities::{namespaces, notes, projects, users};

use super::things::{Thing, Things};
use crate::error::{Error, Result};
use crate::services::namespaces::full_names;
use crate::services::{Backend, links};

/// A project that items are in.
#[derive(Debug, Clone)]
pub struct Home {
    /// The project.
    pub project: projects::Model,
    /// Its whole path.
    pub path: String,
    /// The names of the namespaces above it, separated by ` / `.
    pub namespace_name: String,
}

/// An item with what belongs to it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The item.
    pub todo: Model,
    /// The project that it is in; none for an epic, which says its group.
    pub home: Option<Home>,
    /// Who caused it; nobody when the user is gone.
    pub author: Option<users::Model>,
    /// What it is about.
    pub thing: Thing,
    /// What the note says that caused it.
    pub note: Option<String>,
}

/// One item with what belongs to it.
///
/// # Errors
/// 404 for what went away since.
pub(super) async fn of_one(backend: &Backend, viewer: Viewer, todo: Model) -> Result<Row> {
    let found = decorate(backend.database.read(), viewer, vec![todo]).await?.pop();
    found.ok_or_else(|| Error::not_found(""))
}

/// Adds what belongs to items, for the whole page at once; what went away since the page was read is left out.
///
/// # Errors
/// Whatever the database reports.
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
    let targets: Vec<Target> = found.iter().filter_map(Model::target).collect();
    let authors = found.iter().filter_map(|todo| todo.author_id).collect();
    let things = Things::load(db, viewer, &targets, paths.collect(), authors).await?;
    let rows = found.into_iter().filter_map(|todo| {
        Some(Row {
            home: match todo.project_id {
                Some(id) => Some(homes.get(&id)?.clone()),
                None => None,
            },
            author: things.person(todo.author_id),
            // One thing may have several items.
            thing: things.get(todo.target()?)?.clone(),
            note: todo.note_id.and_then(|id| notes.get(&id).cloned()),
            todo,
        })
    });
    Ok(rows.collect())
}

/// The projects that items are in, by their ids.
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
            path: links::project_path(&namespace?, &project),
            namespace_name: names.get(&project.namespace_id)?.clone(),
            project,
        };
        Some((home.project.id, home))
    });
    Ok(homes.collect())
}

/// What notes say, by their ids.
async fn texts(db: &impl ConnectionTrait, ids: impl Iterator<Item = i64>) -> Result<HashMap<i64, String>> {
    let ids: Vec<i64> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = notes::Entity::find().filter(notes::Column::Id.is_in(ids));
    let found = found.all(db).await?.into_iter();
    Ok(found.map(|note| (note.id, note.body)).collect())
}
