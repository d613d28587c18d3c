//! Operations that groups and personal namespaces share.

mod listing;
mod taken_paths;

use std::collections::HashMap;

use sea_orm::ConnectionTrait;

pub(crate) use listing::with_text;
pub use listing::{NamespaceDetail, NamespaceFilter, get, list};
pub use taken_paths::{TakenPath, find_taken_path};

use storage::entities::namespace_ancestors::names_part;
use storage::entities::related_rows::{RelatedRow, RelatedRows};

use crate::kernel::error::Result;

/// Returns the names of namespaces with those of their ancestors, separated by ` / `, in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn full_names(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let ids: Vec<i64> = ids.into_iter().collect();
    let mut related = RelatedRows::default();
    let names = related.add(names_part(db.get_database_backend(), &ids));
    Ok(joined_names(related.load(db).await?.take(names)))
}

/// Joins the names of each namespace and its ancestors, from the rows of [`names_part`].
pub(crate) fn joined_names(rows: Vec<RelatedRow>) -> HashMap<i64, String> {
    let mut names = HashMap::<i64, String>::new();
    for row in rows {
        let full = names.entry(row.owner_id).or_default();
        if !full.is_empty() {
            full.push_str(" / ");
        }
        let [name, ..] = row.texts;
        full.push_str(&name.unwrap_or_default());
    }
    names
}
