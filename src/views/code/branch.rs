//! Branches.

use domain::code::branches::BranchDetails;

use crate::views::code::commit;
use crate::views::links;

/// Returns a branch; `project_url` is the URL of the project's page.
#[must_use]
pub fn branch(details: BranchDetails, project_url: &str) -> contract::Branch {
    contract::Branch {
        web_url: links::branch(project_url, &details.name),
        commit: commit::commit(details.commit, project_url),
        name: details.name,
        merged: details.merged,
        protected: details.protected,
        developers_can_push: details.developers_can_push,
        developers_can_merge: details.developers_can_merge,
        can_push: details.can_push,
        default: details.default,
    }
}
