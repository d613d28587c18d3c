//! Comparisons.

use domain::code::repositories::Comparison;

use crate::views::code::commit;

/// Returns a comparison; `project_url` is the URL of the project's page.
#[must_use]
pub fn comparison(found: Comparison, project_url: &str) -> contract::Comparison {
    let last = found.commits.last().cloned();
    let commit = |one| commit::commit(one, project_url);
    contract::Comparison {
        commit: last.map(commit),
        commits: found.commits.into_iter().map(commit).collect(),
        diffs: found.diffs.into_iter().map(commit::diff).collect(),
        compare_timeout: found.incomplete,
        compare_same_ref: found.same_ref,
    }
}
