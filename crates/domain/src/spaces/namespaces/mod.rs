//! Operations that groups and personal namespaces share.

mod listing;

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

pub use listing::{NamespaceDetail, NamespaceFilter, get, list};

use storage::entities::{namespace_ancestors, namespaces};

use crate::kernel::error::Result;

/// Returns the names of namespaces with those of their ancestors, separated by ` / `, in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn full_names(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let rows: Vec<(i64, String)> = namespace_ancestors::Entity::find()
        .select_only()
        .column(namespace_ancestors::Column::NamespaceId)
        .column(namespaces::Column::Name)
        .inner_join(namespaces::Entity)
        .filter(namespace_ancestors::Column::NamespaceId.is_in(ids))
        .order_by_desc(namespace_ancestors::Column::Depth)
        .into_tuple()
        .all(db)
        .await?;
    let mut names = HashMap::<i64, String>::new();
    for (id, name) in rows {
        let full = names.entry(id).or_default();
        if !full.is_empty() {
            full.push_str(" / ");
        }
        full.push_str(&name);
    }
    Ok(names)
}
