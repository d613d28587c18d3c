//! Custom attributes of listed groups.

use std::collections::HashMap;

use storage::entities::custom_attributes::{self, Model};

use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;

/// Returns the custom attributes of groups, by group ID, in one statement. Returns `None` if the caller may
/// not see them.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn custom_attributes(
    backend: &Backend,
    caller: &Caller,
    ids: impl IntoIterator<Item = i64>,
) -> Result<Option<HashMap<i64, Vec<Model>>>> {
    if !caller.is_admin() {
        return Ok(None);
    }
    let mut found: HashMap<i64, Vec<Model>> = HashMap::new();
    for row in custom_attributes::of_groups(backend.database.read(), ids).await? {
        if let Some(group) = row.namespace_id {
            found.entry(group).or_default().push(row);
        }
    }
    Ok(Some(found))
}
