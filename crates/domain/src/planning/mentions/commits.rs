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
pub(crate) async fn name_commit(
    backend: &Backend,
    place: &SpaceAccess,
    id: &str,
    message: &str,
    closed: &BTreeSet<i64>,
) -> Result<()> {
    let (Some(project), author) = (&place.project, place.caller.signed_in()?.id) else {
        return Ok(());
    };
    let mut named = cross_references::named(backend, place, &[], &[message]).await?;
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
                    system_notes::naming_commit(target, project.id, author, body(path))
                })
                .await
        })
        .await
}
