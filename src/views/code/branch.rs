//! Branches.

use domain::code::branches::BranchDetail;

use crate::views::code::commit;
use crate::views::links;

/// Returns a branch; `project_url` is the URL of the project's page.
#[must_use]
pub fn branch(detail: BranchDetail, project_url: &str) -> contract::Branch {
    contract::Branch {
        web_url: links::branch(project_url, &detail.name),
        commit: commit::commit(detail.commit, project_url),
        name: detail.name,
        merged: detail.merged,
        protected: detail.protected,
        developers_can_push: detail.developers_can_push,
        developers_can_merge: detail.developers_can_merge,
        can_push: detail.can_push,
        default: detail.default,
    }
}
