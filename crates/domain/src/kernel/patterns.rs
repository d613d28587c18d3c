//! Patterns with wildcards, such as `release/*`.

/// Returns whether a name matches a pattern with `*` as wildcard.
#[must_use]
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (mut pieces, mut rest) = (pattern.split('*'), name);
    let Some(stripped) = pieces.next().and_then(|first| rest.strip_prefix(first)) else {
        return false;
    };
    rest = stripped;
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    // The leftmost match of each piece leaves the most text for the next one.
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_wildcard_matches_across_slashes() {
        for (pattern, name, expected) in [
            ("main", "main", true),
            ("main", "maine", false),
            ("*", "", true),
            ("*", "a/b", true),
            ("release/*", "release/1/x", true),
            ("release/*", "release", false),
            ("*-stable", "1-2-stable", true),
            ("*-stable", "stable", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("ab*ba", "aba", false),
            ("**x**", "x", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
