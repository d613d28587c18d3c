//! Whether a path is taken, and a similar path that is available.

use std::collections::HashSet;

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::fold;
use storage::entities::namespaces::{self, Column};

use crate::identity::access::GroupAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};

/// Number of similar paths to try.
const MAX_SUGGESTIONS: usize = 100;

/// A path that a namespace has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenPath {
    /// A similar path that no namespace has, if one was found.
    pub available: Option<String>,
}

/// Returns whether a namespace at the top level, or directly in a group, has this last segment of its path. A group that
/// the caller cannot see is considered empty.
///
/// # Errors
/// Returns `Unauthorized` without a caller.
pub async fn find_taken_path(
    backend: &Backend,
    caller: &Caller,
    path: &str,
    parent_id: Option<i64>,
) -> Result<Option<TakenPath>> {
    caller.signed_in()?;
    // Only a full path contains slashes.
    if path.contains('/') {
        return Ok(None);
    }
    let parent = match parent_id {
        Some(id) => match GroupAccess::find(backend, caller.clone(), &id.to_string()).await {
            Ok(access) => format!("{}/", access.group.full_path_key),
            Err(Error::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        },
        None => String::new(),
    };
    let key = |path: &str| format!("{parent}{}", fold(path));
    let similar: Vec<String> = (1..=MAX_SUGGESTIONS)
        .map(|number| format!("{path}{number}"))
        .collect();
    // Paths stay taken while a namespace is deleted.
    let taken: HashSet<String> = namespaces::Entity::find()
        .select_only()
        .column(Column::FullPathKey)
        .filter(Column::FullPathKey.is_in(similar.iter().map(|path| key(path)).chain([key(path)])))
        .into_tuple()
        .all(backend.database.read())
        .await?
        .into_iter()
        .collect();
    if !taken.contains(&key(path)) {
        return Ok(None);
    }
    let available = similar.into_iter().find(|path| !taken.contains(&key(path)));
    Ok(Some(TakenPath { available }))
}
