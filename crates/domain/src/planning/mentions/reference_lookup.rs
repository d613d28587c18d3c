//! Resolves references to rows, without regard to permissions.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, QueryFilter};
use storage::entities::{fold, namespaces, projects};

use crate::kernel::error::Result;
use crate::kernel::text::references::Reference;

/// Returns a condition on the columns of project and IID that matches the references, or `None` if none
/// resolves.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn resolve_references(
    db: &impl ConnectionTrait,
    (project, namespace): (&projects::Model, &namespaces::Model),
    references: Vec<Reference>,
    (project_column, iid_column): (impl ColumnTrait, impl ColumnTrait),
) -> Result<Option<Condition>> {
    let mut own_iids: BTreeSet<i64> = BTreeSet::new();
    let mut iids_by_path: BTreeMap<(String, String), BTreeSet<i64>> = BTreeMap::new();
    for reference in references {
        let Some(path) = reference.project else {
            own_iids.insert(reference.iid);
            continue;
        };
        let (parent, name) = match path.rsplit_once('/') {
            Some((parent, name)) => (fold(parent), fold(name)),
            None => (namespace.full_path_key.clone(), fold(&path)),
        };
        iids_by_path
            .entry((parent, name))
            .or_default()
            .insert(reference.iid);
    }
    let mut any = Condition::any();
    let mut is_empty = true;
    let mut add = |id: i64, iids: &BTreeSet<i64>| {
        is_empty = false;
        let of_project = Condition::all()
            .add(project_column.eq(id))
            .add(iid_column.is_in(iids.iter().copied()));
        any = std::mem::replace(&mut any, Condition::any()).add(of_project);
    };
    if !own_iids.is_empty() {
        add(project.id, &own_iids);
    }
    if !iids_by_path.is_empty() {
        let paths = iids_by_path.keys().fold(Condition::any(), |any, (parent, name)| {
            let path = Condition::all()
                .add(namespaces::Column::FullPathKey.eq(parent.as_str()))
                .add(projects::Column::PathKey.eq(name.as_str()));
            any.add(path)
        });
        let found = projects::not_deleted()
            .find_also_related(namespaces::Entity)
            .filter(paths)
            .all(db)
            .await?;
        for (project, namespace) in found {
            let Some(namespace) = namespace else { continue };
            if let Some(iids) = iids_by_path.get(&(namespace.full_path_key, project.path_key)) {
                add(project.id, iids);
            }
        }
    }
    Ok((!is_empty).then_some(any))
}
