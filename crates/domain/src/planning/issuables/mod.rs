//! Shared parts of issues and merge requests: attributes, subscriptions, time tracking and lists. Differences
//! are in [`IssuableKind`] or in their own modules.

mod associations;
mod columns;
pub mod list;
mod metadata;
mod participants;
pub mod subscriptions;
pub mod task_list;
pub mod time_tracking;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use associations::{Belongings, Issuable, gather, gather_both};
pub(crate) use columns::IssuableRow;
pub use list::{Conditions, Filter, Place, Scope};
pub use metadata::{Metadata, assignees};
pub(crate) use metadata::{Outcome, Prepared, assignable};
pub(crate) use participants::participants;

use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
pub use storage::entities::issuables::IssuableKind;

/// Previous and current value of a field, for webhooks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Changed {
    /// Previous value.
    pub previous: Value,
    /// Current value.
    pub current: Value,
}

impl Changed {
    /// Returns the fields that differ between two lists of the same fields.
    pub(crate) fn between<const N: usize>(
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

/// Returns the title as it is stored.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank.
pub(crate) fn check_title(title: &str) -> Result<&str> {
    let title = title.trim();
    if title.is_empty() {
        return Err(Error::attribute("title", "can't be blank"));
    }
    Ok(title)
}

/// Checks that the caller has a role.
///
/// # Errors
/// Returns `Error::Forbidden` if the caller's role is lower.
pub(crate) fn require(access: &ProjectAccess, role: Role) -> Result<()> {
    if access.has_role(role) {
        Ok(())
    } else {
        Err(Error::forbidden())
    }
}
