//! Lookup of labels by title, and creation of missing ones.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, LockType, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use storage::entities::labels::{self, ActiveModel, Column, Model};
use storage::entities::{Scope, fold, namespace_ancestors, now};

use super::rules::{self, DEFAULT_COLOR};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// Maximum labels in one assignment.
pub(crate) const MAX_LABELS: usize = 100;

/// Returns the IDs of the labels with these titles, in the given order without duplicates. Labels of the
/// project or group take precedence over those of its ancestors, nearest first. A missing label is created
/// with the default color if the caller may create labels, and ignored otherwise. Titles are trimmed, and
/// empty ones are ignored.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if there are more than 100 titles or a title is invalid.
pub async fn resolve_or_create(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    titles: &[&str],
) -> Result<Vec<i64>> {
    let mut unique: Vec<&str> = Vec::new();
    for title in titles.iter().map(|title| title.trim()) {
        if !title.is_empty() && !unique.contains(&title) {
            unique.push(title);
        }
    }
    if unique.len() > MAX_LABELS {
        return Err(Error::attribute(
            "labels",
            format!("are too many (maximum is {MAX_LABELS})"),
        ));
    }
    for title in &unique {
        rules::check_title(title)?;
    }
    // Locked, so that the labels cannot be deleted before they are assigned.
    let mut ids = nearest(transaction, space, &unique, Some(LockType::KeyShare)).await?;
    let mut missing = unique.clone();
    missing.retain(|title| !ids.contains_key(*title) && space.has_role(Role::Reporter));
    // Inserted in sorted order to avoid deadlocks.
    missing.sort_unstable();
    for title in missing {
        let label = insert_or_get(transaction, space, title).await?;
        ids.insert(title.to_owned(), label.id);
    }
    Ok(unique
        .iter()
        .filter_map(|title| ids.get(*title).copied())
        .collect())
}

/// Locks the labels with these titles until the transaction ends and returns their IDs. Missing labels are not
/// created, and the number of titles has no maximum.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn lock_by_title(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    titles: &[&str],
) -> Result<Vec<i64>> {
    let found = nearest(transaction, space, titles, Some(LockType::KeyShare)).await?;
    let mut ids: Vec<i64> = found.into_values().collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Returns the IDs of the labels with these titles, by title. Missing ones are absent.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn ids_by_title(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    titles: &[&str],
) -> Result<HashMap<String, i64>> {
    nearest(db, space, titles, None).await
}

/// Like [`ids_by_title`], with an optional lock. Descriptions, which can be long, are not read.
async fn nearest(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    titles: &[&str],
    lock: Option<LockType>,
) -> Result<HashMap<String, i64>> {
    if titles.is_empty() {
        return Ok(HashMap::new());
    }
    let mut query = labels::available(space.scope(), space.namespace.id)
        .select_only()
        .columns([Column::Id, Column::Title, Column::NamespaceId])
        .filter(Column::Title.is_in(titles.iter().copied()))
        .order_by_asc(Column::Id);
    if let Some(lock) = lock {
        query = query.lock(lock);
    }
    let found: Vec<(i64, String, Option<i64>)> = query.into_tuple().all(db).await?;
    let ancestors = namespace_ancestors::of(db, space.namespace.id).await?;
    let distance = |namespace_id: Option<i64>| {
        let group = ancestors.iter().find(|row| Some(row.ancestor_id) == namespace_id);
        group.map(|row| row.depth)
    };
    let mut nearest: HashMap<String, (i64, Option<i32>)> = HashMap::new();
    for (id, title, namespace_id) in found {
        let distance = distance(namespace_id);
        match nearest.get(&title) {
            // The label of a project has no distance, which sorts first.
            Some((_, other)) if *other <= distance => {}
            _ => {
                nearest.insert(title, (id, distance));
            }
        }
    }
    let ids = nearest.into_iter().map(|(title, (id, _))| (title, id));
    Ok(ids.collect())
}

/// Creates a label with a title in the project or group. If a concurrent request created the label, returns
/// that label.
async fn insert_or_get(transaction: &DatabaseTransaction, space: &SpaceAccess, title: &str) -> Result<Model> {
    let column = match space.scope() {
        Scope::Project(_) => Column::ProjectId,
        Scope::Group(_) => Column::NamespaceId,
    };
    let at = now();
    let row = ActiveModel {
        project_id: Set(space.scope().project_id()),
        namespace_id: Set(space.scope().namespace_id()),
        title: Set(title.to_owned()),
        title_key: Set(fold(title)),
        color: Set(DEFAULT_COLOR.to_owned()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    // A no-op update, so that the existing row is returned.
    let on_conflict = OnConflict::columns([column, Column::Title])
        .value(Column::UpdatedAt, Expr::col((labels::Entity, Column::UpdatedAt)))
        .to_owned();
    let insert = labels::Entity::insert(row).on_conflict(on_conflict);
    Ok(insert.exec_with_returning(transaction).await?)
}
