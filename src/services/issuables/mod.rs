//! What issues and merge requests have alike: what members say of them, who is told of them, how long they take, and how
//! lists of them are found. What differs is told by [`Kind`], or lies in the area of either.

mod belongings;
pub mod list;
mod metadata;
mod participants;
pub mod subscriptions;
pub mod tasks;
pub mod times;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(in crate::services) use belongings::{Belongings, Issuable, gather, gather_both};
pub use list::{Conditions, Filter, Place, Scope};
pub use metadata::{Metadata, assignees};
pub(in crate::services) use metadata::{Outcome, Prepared, assignable};
pub(in crate::services) use participants::participants;

use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::access::ProjectAccess;
pub use storage::entities::issuables::Kind;

/// What a field was and is, as hooks are told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Changed {
    /// Before.
    pub previous: Value,
    /// After.
    pub current: Value,
}

impl Changed {
    /// The fields that are others now, of two lists of the same fields.
    pub(in crate::services) fn between<const N: usize>(
        before: [(&str, Value); N],
        after: [(&str, Value); N],
    ) -> BTreeMap<String, Self> {
        let pairs = before.into_iter().zip(after);
        pairs
            .filter(|((_, previous), (_, current))| previous != current)
            .map(|((name, previous), (_, current))| (name.to_owned(), Self { previous, current }))
            .collect()
    }
}

/// A title as it is kept.
///
/// # Errors
/// 400 for one that is blank.
pub(in crate::services) fn check_title(title: &str) -> Result<&str> {
    let title = title.trim();
    if title.is_empty() {
        return Err(Error::attribute("title", "can't be blank"));
    }
    Ok(title)
}

/// Refuses what takes a role from whoever has none of it.
///
/// # Errors
/// 403.
pub(in crate::services) fn require(access: &ProjectAccess, role: Role) -> Result<()> {
    if access.holds(role) {
        Ok(())
    } else {
        Err(Error::forbidden())
    }
}
