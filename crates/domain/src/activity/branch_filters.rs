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
/// Size that is sufficient for most expressions, in bytes. The cache has room for a thousand of them.
const SMALL_PROGRAM_BYTES: usize = 4 << 10;
/// Size up to which the cache has room for the expressions of all webhooks of a project, in bytes.
const MEDIUM_PROGRAM_BYTES: usize = 16 << 10;
/// Maximum memory of the compiled expressions that are kept, in bytes.
const MAX_CACHE_BYTES: u64 = 16 << 20;
/// Memory of a compiled expression for each byte of its size: the programs in both directions, and the states of its
/// matches.
const MEMORY_PER_BYTE: usize = 4;

/// Compiled expressions, or `None` if an expression is too large.
static COMPILED: LazyLock<BoundedCache<String, Option<CompiledFilter>>> = LazyLock::new(|| {
    BoundedCache::new(
        MAX_CACHE_BYTES,
        |filter: &String, compiled: &Option<CompiledFilter>| {
            let program_bytes = compiled.as_ref().map_or(0, |compiled| compiled.max_bytes);
            filter.len() + MEMORY_PER_BYTE * program_bytes
        },
    )
});

/// A compiled expression for branches.
#[derive(Debug, Clone)]
pub(crate) struct CompiledFilter {
    expression: SearchRegex,
    /// Maximum size of the compiled expression, in bytes.
    max_bytes: usize,
}

/// Compiles an expression for branches.
///
/// # Errors
/// Returns [`InvalidRegex`] with the reason.
pub(crate) fn compile(filter: &str) -> Result<CompiledFilter, InvalidRegex> {
    let within = |max_bytes: usize| -> Result<CompiledFilter, InvalidRegex> {
        let expression = SearchRegex::compile_within(filter, false, max_bytes)?;
        Ok(CompiledFilter {
            expression,
            max_bytes,
        })
    };
    within(SMALL_PROGRAM_BYTES)
        .or_else(|_| within(MEDIUM_PROGRAM_BYTES))
        .or_else(|_| within(MAX_PROGRAM_BYTES))
}

/// Returns a compiled expression. Expressions are checked before they are stored, but another version of the library may
/// need more memory for one.
fn compiled(filter: &str) -> Option<CompiledFilter> {
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
        BranchFilterStrategy::Regex => {
            compiled(filter).is_some_and(|compiled| compiled.expression.is_in(branch))
        }
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
    fn expressions_of_a_project_are_compiled_once_for_all_webhooks() {
        let filters = (0..100).map(|number| format!("^of-a-project-{number}/[a-z]{{150}}$"));
        let filters: Vec<String> = filters.collect();
        for filter in &filters {
            assert!(!super::accepts_branch(Regex, Some(filter), Some("main")));
        }
        let known = filters
            .iter()
            .filter_map(|filter| super::COMPILED.get(filter.as_str()).flatten());
        let known: Vec<usize> = known.map(|compiled| compiled.max_bytes).collect();
        assert_eq!(known, [super::MEDIUM_PROGRAM_BYTES; 100]);
    }

    #[test]
    fn usual_expressions_are_small() {
        for filter in [
            "^(main|master|develop)$",
            r"^release/v?\d+\.\d+(\.\d+)?$",
            r"^(feature|bugfix|hotfix)/[A-Z]+-\d+(-[a-z0-9-]+)?$",
            r"^\w+([._-]\w+)*$",
            "(?i)^(wip|draft)/",
            "^[^/]+/.*-stable$",
        ] {
            let compiled = super::compile(filter).expect("an expression");
            assert_eq!(compiled.max_bytes, super::SMALL_PROGRAM_BYTES, "{filter}");
        }
        assert!(super::compile(&"a".repeat(255)).is_ok());
    }

    #[test]
    fn repetitions_of_classes_with_all_characters_are_large() {
        for filter in ["^feature/[^/]{1,40}$", "^feature/.{1,40}$"] {
            let compiled = super::compile(filter).expect("an expression");
            assert_eq!(compiled.max_bytes, super::MAX_PROGRAM_BYTES, "{filter}");
            for (branch, accepted) in [("feature/one", true), ("main", false)] {
                assert_eq!(super::accepts_branch(Regex, Some(filter), Some(branch)), accepted);
            }
        }
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
