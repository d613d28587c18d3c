//! Pushes to branches whose protection requires approvals of code owners. Changes of files with owners need a merge request.

use git::{NewObjects, Oid};

use super::{find_file, of_change};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::cache::ChangeOwners;
use crate::kernel::error::Result;

/// Maximum number of patterns in the text for the pusher.
const MAX_SHOWN: usize = 10;

/// Returns why a branch cannot be moved to a commit, if this changes files with owners. A branch that does not exist has no
/// file that names owners.
///
/// # Errors
/// Returns an error if the repository fails.
pub async fn find_violation(
    backend: &Backend,
    access: &ProjectAccess,
    branch: &str,
    (objects, new): (NewObjects, Oid),
) -> Result<Option<String>> {
    let repository = repository_access::open(backend, access);
    let old = match repository.branch(branch).await {
        Err(git::Error::BranchNotFound) => return Ok(None),
        found => found?.commit,
    };
    let Some(file) = find_file(&repository, old).await? else {
        return Ok(None);
    };
    Ok(match of_change(file, &objects, (old, new)).await? {
        ChangeOwners::Unknown(reason) => Some(format!(
            "The code owners of the branch {branch} cannot be checked: {reason}. Open a merge request."
        )),
        ChangeOwners::Known(owned) => {
            let required: Vec<&str> = owned
                .iter()
                .filter(|owned| !owned.is_optional)
                .map(|owned| owned.pattern.as_str())
                .collect();
            (!required.is_empty()).then(|| text(branch, &required))
        }
    })
}

fn text(branch: &str, patterns: &[&str]) -> String {
    let shown = patterns.iter().take(MAX_SHOWN).copied();
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = match patterns.len() > MAX_SHOWN {
        true => ", ...",
        false => "",
    };
    format!(
        "The branch {branch} requires approvals of code owners for these patterns of CODEOWNERS: {shown}{more}. Open a \
         merge request."
    )
}
