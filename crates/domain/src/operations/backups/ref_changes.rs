//! Refs that moved while the database was copied. The database copy may not know these updates.
//!
//! A restore announces them like a server that was killed during the updates. The next server then compares the refs with
//! the recorded updates and records the missing effects: events, merge requests and default branches
//! (`code::ref_updates::recover`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde::{Deserialize, Serialize};
use storage::database::Database;
use storage::entities::ref_updates::{ActiveModel, RefUpdateKind, RefUpdateState};

use super::file_store::FileStore;
use super::manifest::{RepositoryEntry, RepositoryListing};
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::RefChange;

/// Prefixes of the refs whose updates have effects.
const PREFIXES: [&str; 2] = ["refs/heads/", "refs/tags/"];

/// The refs of a project that moved between two copies of its repository, with their targets in the first copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MovedRefs {
    pub(super) project_id: i64,
    pub(super) changes: Vec<RefChange>,
}

/// Compares two copies of a repository. Returns `None` if no ref moved. Blocks.
pub(super) fn compare(
    store: &FileStore,
    before: Option<&RepositoryEntry>,
    after: &RepositoryEntry,
) -> io::Result<Option<MovedRefs>> {
    if before == Some(after) {
        return Ok(None);
    }
    let old = before
        .map(|entry| read(store, entry))
        .transpose()?
        .unwrap_or_default();
    let new = read(store, after)?;
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let moved = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    let changes: Vec<RefChange> = moved
        .map(|name| RefChange {
            reference: name.clone(),
            old: old.get(name).cloned(),
            new: None,
        })
        .collect();
    Ok((!changes.is_empty()).then_some(MovedRefs {
        project_id: after.project_id,
        changes,
    }))
}

/// Returns the targets of the branches and tags of a copy.
fn read(store: &FileStore, entry: &RepositoryEntry) -> io::Result<BTreeMap<String, String>> {
    let listing: RepositoryListing = store.read_description(entry.listing)?;
    let mut text = String::new();
    store.read(listing.references)?.read_to_string(&mut text)?;
    Ok(parse(&text))
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let refs = lines.filter(|(_, name)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    refs.map(|(id, name)| (name.to_owned(), id.to_owned())).collect()
}

/// Announces updates in a restored database.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn announce(database: &Database, moved: &[MovedRefs], at: DateTime<Utc>) -> Result<()> {
    for project in moved {
        let row = ActiveModel {
            project_id: Set(project.project_id),
            user_id: Set(None),
            kind: Set(RefUpdateKind::Push),
            changes: Set(serde_json::to_string(&project.changes).map_err(Error::internal)?),
            state: Set(RefUpdateState::Pending),
            created_at: Set(at),
            ..Default::default()
        };
        row.insert(database.write()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_branches_and_tags_are_parsed() {
        let text =
            "# pack-refs with: sorted \n12 refs/heads/a b\n34 refs/merge-requests/1/head\n56 refs/tags/v1\n";
        let found = parse(text);
        let found: Vec<_> = found
            .iter()
            .map(|(name, id)| (name.as_str(), id.as_str()))
            .collect();
        assert_eq!(found, [("refs/heads/a b", "12"), ("refs/tags/v1", "56")]);
    }
}
