//! What the messages of commits name.

use std::collections::BTreeSet;

use sea_orm::{ColumnTrait, Condition};
use storage::entities::notes::Column;

use super::naming;
use crate::error::Result;
use crate::services::Backend;
use crate::services::notes::system;
use crate::services::places::Place;

/// A commit as it is named from a project that knows its own by this path, which is empty there.
pub(in crate::services) fn commit_reference(path: &str, id: &str) -> String {
    match path.is_empty() {
        true => id.to_owned(),
        false => format!("{path}@{id}"),
    }
}

/// Writes a note on each issue and merge request that the message of a commit of a project names, once: as far as the
/// caller sees them, and but for the issues that it closed, which tell so already.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn name_commit(
    backend: &Backend,
    place: &Place,
    id: &str,
    message: &str,
    closed: &BTreeSet<i64>,
) -> Result<()> {
    let (Some(project), author) = (&place.project, place.caller.signed_in()?.id) else {
        return Ok(());
    };
    let mut named = naming::named(backend, place, &[], &[message]).await?;
    named.issues.retain(|issue| !closed.contains(issue));
    let body = |path: &str| format!("mentioned in commit {}", commit_reference(path, id));
    let told = Condition::all()
        .add(Column::ReferencedProjectId.eq(project.id))
        .add(Column::Body.is_in([body(""), body(&place.full_path())]));
    backend
        .database
        .transaction(async |transaction| {
            named
                .tell(transaction, place, None, told, |target, path| {
                    system::naming_commit(target, project.id, author, body(path))
                })
                .await
        })
        .await
}
