//! Labels by the titles that callers write, and those that are made because nobody has made them yet.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, LockType, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};

use crate::entities::labels::{self, ActiveModel, Column, Model};
use crate::entities::{Scope, fold, namespace_ancestors, now};
use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::places::Place;

use super::rules::{self, DEFAULT_COLOR};

/// How many labels a thing may be given at once.
pub(in crate::services) const MOST: usize = 100;

/// The ids of the labels that these titles name in a place: its own before those of groups above, the nearest group
/// first. A title that names none makes a label of the place, in the usual colour, where the caller may make labels, and is
/// overlooked elsewhere. Titles may repeat and be surrounded by spaces; empty ones are overlooked. The ids are in the
/// order of the titles, each once.
///
/// # Errors
/// 400 for more than 100 titles, and for one that no label may have.
pub async fn resolve_or_create(
    transaction: &DatabaseTransaction,
    place: &Place,
    titles: &[&str],
) -> Result<Vec<i64>> {
    let mut wanted: Vec<&str> = Vec::new();
    for title in titles.iter().map(|title| title.trim()) {
        if !title.is_empty() && !wanted.contains(&title) {
            wanted.push(title);
        }
    }
    if wanted.len() > MOST {
        return Err(Error::attribute(
            "labels",
            format!("are too many (maximum is {MOST})"),
        ));
    }
    for title in &wanted {
        rules::title(title)?;
    }
    // Held, so that nobody removes what is about to be carried.
    let mut known = nearest(transaction, place, &wanted, Some(LockType::KeyShare)).await?;
    let mut unknown = wanted.clone();
    unknown.retain(|title| !known.contains_key(*title) && place.holds(Role::Reporter));
    // In one order, so that nobody waits for each other in a circle.
    unknown.sort_unstable();
    for title in unknown {
        known.insert(title.to_owned(), make(transaction, place, title).await?);
    }
    let ids = wanted.iter().filter_map(|title| known.get(*title));
    Ok(ids.map(|label| label.id).collect())
}

/// The ids of the labels that titles name in a place, held until the transaction ends; none is made, and there may be any
/// number of them.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn hold_named(
    transaction: &DatabaseTransaction,
    place: &Place,
    titles: &[&str],
) -> Result<Vec<i64>> {
    let known = nearest(transaction, place, titles, Some(LockType::KeyShare)).await?;
    let mut ids: Vec<i64> = known.values().map(|label| label.id).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// The labels that titles name in a place, by title; those that name none are absent.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn named(
    db: &impl ConnectionTrait,
    place: &Place,
    titles: &[&str],
) -> Result<HashMap<String, Model>> {
    nearest(db, place, titles, None).await
}

/// As [`named`], and locked.
async fn nearest(
    db: &impl ConnectionTrait,
    place: &Place,
    titles: &[&str],
    lock: Option<LockType>,
) -> Result<HashMap<String, Model>> {
    if titles.is_empty() {
        return Ok(HashMap::new());
    }
    let mut found = labels::available(place.scope(), place.namespace.id)
        .filter(Column::Title.is_in(titles.iter().copied()))
        .order_by_asc(Column::Id);
    if let Some(lock) = lock {
        found = found.lock(lock);
    }
    let found = found.all(db).await?;
    let above = namespace_ancestors::of(db, place.namespace.id).await?;
    let distance = |label: &Model| {
        let group = above
            .iter()
            .find(|row| Some(row.ancestor_id) == label.namespace_id);
        group.map(|row| row.depth)
    };
    let mut nearest: HashMap<String, Model> = HashMap::new();
    for label in found {
        match nearest.get(&label.title) {
            // The label of a project has no distance, and that comes first.
            Some(other) if distance(other) <= distance(&label) => {}
            _ => {
                nearest.insert(label.title.clone(), label);
            }
        }
    }
    Ok(nearest)
}

/// A label of the place itself, made by its title alone. Where somebody else makes it at the same time, it is theirs.
async fn make(transaction: &DatabaseTransaction, place: &Place, title: &str) -> Result<Model> {
    let column = match place.scope() {
        Scope::Project(_) => Column::ProjectId,
        Scope::Group(_) => Column::NamespaceId,
    };
    let at = now();
    let row = ActiveModel {
        project_id: Set(place.scope().project_id()),
        namespace_id: Set(place.scope().namespace_id()),
        title: Set(title.to_owned()),
        title_key: Set(fold(title)),
        color: Set(DEFAULT_COLOR.to_owned()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    // Changed to what it is, so that the row comes back.
    let theirs = OnConflict::columns([column, Column::Title])
        .value(Column::UpdatedAt, Expr::col((labels::Entity, Column::UpdatedAt)))
        .to_owned();
    let made = labels::Entity::insert(row).on_conflict(theirs);
    Ok(made.exec_with_returning(transaction).await?)
}
