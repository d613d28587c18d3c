//! Titles that mark a merge request as a draft.

/// Prefixes of such titles, case-folded. The list filter uses the same prefixes.
pub(super) const DRAFT_PREFIXES: [&str; 5] = ["draft:", "[draft]", "(draft)", "wip:", "[wip]"];

/// Returns whether a title marks a draft.
#[must_use]
pub fn is_draft(title: &str) -> bool {
    let folded = title.to_lowercase();
    DRAFT_PREFIXES.iter().any(|prefix| folded.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::is_draft;

    #[test]
    fn draft_requires_prefix_in_title() {
        for title in ["Draft: x", "draft:x", "[DRAFT] x", "(Draft) x", "WIP: x", "[wip]"] {
            assert!(is_draft(title), "{title}");
        }
        for title in ["Drafts", "WIP x", "x [WIP]", "(wip) x", "", "A draft: x"] {
            assert!(!is_draft(title), "{title}");
        }
    }
}
