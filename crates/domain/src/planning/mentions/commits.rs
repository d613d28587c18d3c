//! References in commit messages.

use std::collections::BTreeSet;

use sea_orm::{ColumnTrait, Condition};
use storage::entities::notes::Column;

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::planning::mentions::cross_references;
use crate::planning::system_notes;

/// Returns the reference of a commit from a project to which its own project has this path, which is empty
/// for the same project.
pub(crate) fn commit_reference(path: &str, id: &str) -> String {
    match path.is_empty() {
        true => id.to_owned(),
        false => format!("{path}@{id}"),
    }
}

/// Writes one system note on each issue and merge request that a commit message references and the caller can
/// see. Issues that the commit closed already have such a note.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn record_commit_reference(
    backend: &Backend,
    space: &SpaceAccess,
    id: &str,
    message: &str,
    closed: &BTreeSet<i64>,
) -> Result<()> {
    let (Some(project), author) = (&space.project, space.caller.signed_in()?.id) else {
        return Ok(());
    };
    let mut references = cross_references::find(backend, space, &[], &[message]).await?;
    references.issues.retain(|id| !closed.contains(id));
    let body = |path: &str| format!("mentioned in commit {}", commit_reference(path, id));
    let existing = Condition::all()
        .add(Column::ReferencedProjectId.eq(project.id))
        .add(Column::Body.is_in([body(""), body(&space.full_path())]));
    backend
        .database
        .transaction(async |transaction| {
            references
                .create_notes(transaction, space, None, existing, |target, path| {
                    system_notes::commit_reference(target, project.id, author, body(path))
                })
                .await
        })
        .await
}
