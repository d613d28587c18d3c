//! Filters of webhooks for branches.
//!
//! They are compared in the transaction of an event, which must not wait for the compilation of an expression. Compiled
//! expressions are therefore small, and kept in memory.

use std::sync::LazyLock;

use cache::BoundedCache;
use storage::entities::project_hooks::BranchFilterStrategy;

use crate::kernel::patterns::matches_pattern;
use crate::kernel::text::re2::{InvalidRegex, SearchRegex};

/// Maximum size of a compiled expression, in bytes.
const MAX_PROGRAM_BYTES: usize = 64 << 10;
/// Maximum memory of the compiled expressions that are kept, in bytes.
const MAX_CACHE_BYTES: u64 = 16 << 20;
/// Memory of a compiled expression in bytes: its programs in both directions, and the states of its matches.
const EXPRESSION_BYTES: usize = 4 * MAX_PROGRAM_BYTES;

/// Compiled expressions, or `None` if an expression is too large.
static COMPILED: LazyLock<BoundedCache<String, Option<SearchRegex>>> = LazyLock::new(|| {
    BoundedCache::new(
        MAX_CACHE_BYTES,
        |filter: &String, expression: &Option<SearchRegex>| {
            let expression = expression.as_ref().map_or(0, |_| EXPRESSION_BYTES);
            filter.len() + expression
        },
    )
});

/// Compiles an expression for branches.
///
/// # Errors
/// Returns [`InvalidRegex`] with the reason.
pub(crate) fn compile(filter: &str) -> Result<SearchRegex, InvalidRegex> {
    SearchRegex::compile_within(filter, false, MAX_PROGRAM_BYTES)
}

/// Returns a compiled expression. Expressions are checked before they are stored, but another version of the library may
/// need more memory for one.
fn compiled(filter: &str) -> Option<SearchRegex> {
    if let Some(known) = COMPILED.get(filter) {
        return known;
    }
    let expression = compile(filter).ok();
    COMPILED.insert(filter.to_owned(), expression.clone());
    expression
}

/// Returns whether a webhook with this branch filter receives an event of a branch. Events without a branch
/// are not filtered.
pub(super) fn accepts_branch(
    strategy: BranchFilterStrategy,
    filter: Option<&str>,
    branch: Option<&str>,
) -> bool {
    let (Some(filter), Some(branch)) = (filter.filter(|filter| !filter.is_empty()), branch) else {
        return true;
    };
    match strategy {
        BranchFilterStrategy::AllBranches => true,
        BranchFilterStrategy::Wildcard => matches_pattern(filter, branch),
        BranchFilterStrategy::Regex => compiled(filter).is_some_and(|expression| expression.is_in(branch)),
    }
}

#[cfg(test)]
mod tests {
    use super::BranchFilterStrategy::{AllBranches, Regex, Wildcard};

    fn accepts_branch(filter: Option<&str>, branch: Option<&str>) -> bool {
        super::accepts_branch(Wildcard, filter, branch)
    }

    #[test]
    fn strategy_selects_the_meaning_of_the_filter() {
        for (strategy, filter, branch, accepted) in [
            (Regex, "^(main|release/.+)$", "release/1", true),
            (Regex, "^(main|release/.+)$", "mainly", false),
            (Regex, "ai", "main", true),
            (Regex, "(", "main", false),
            (Regex, "", "main", true),
            (AllBranches, "main", "other", true),
            (Wildcard, "m.*n", "main", false),
        ] {
            let found = super::accepts_branch(strategy, Some(filter), Some(branch));
            assert_eq!(found, accepted, "{filter} {branch}");
        }
        assert!(super::accepts_branch(Regex, Some("x"), None));
    }

    #[test]
    fn branch_filter_matches_name_or_wildcard() {
        assert!(
            accepts_branch(None, Some("main"))
                && accepts_branch(Some(""), Some("main"))
                && accepts_branch(Some("main"), None)
        );
        assert!(accepts_branch(Some("main"), Some("main")) && !accepts_branch(Some("main"), Some("mainly")));
        assert!(
            accepts_branch(Some("feature/*"), Some("feature/x/y"))
                && !accepts_branch(Some("feature/*"), Some("feature"))
        );
        assert!(
            accepts_branch(Some("*-stable"), Some("1-stable"))
                && !accepts_branch(Some("*-stable"), Some("1-unstable-2"))
        );
    }

    #[test]
    fn expression_is_compiled_once_and_large_ones_are_refused() {
        let filter = "^compiled/once/[0-9]+$";
        assert!(super::COMPILED.get(filter).is_none());
        for (branch, accepted) in [("compiled/once/1", true), ("compiled/once/x", false)] {
            assert_eq!(super::accepts_branch(Regex, Some(filter), Some(branch)), accepted);
            assert!(super::COMPILED.get(filter).flatten().is_some());
        }
        let large = "a{1000}b{1000}c{1000}d{1000}";
        assert!(super::SearchRegex::compile(large, false).is_ok());
        assert!(super::compile(large).is_err());
        assert!(!super::accepts_branch(Regex, Some(large), Some("a")));
        assert!(matches!(super::COMPILED.get(large), Some(None)));
    }
}
