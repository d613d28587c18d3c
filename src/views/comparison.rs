//! Comparisons.

use domain::code::repositories::Comparison;

use crate::api::contract;
use crate::views::commit;

/// Returns a comparison; `project_url` is the URL of the project's page.
#[must_use]
pub fn comparison(found: Comparison, project_url: &str) -> contract::Comparison {
    let commits: Vec<_> = found
        .commits
        .into_iter()
        .map(|one| commit::commit(one, project_url))
        .collect();
    contract::Comparison {
        commit: commits.last().cloned(),
        commits,
        diffs: found.diffs.into_iter().map(commit::diff).collect(),
        compare_timeout: found.incomplete,
        compare_same_ref: found.same_ref,
    }
}
