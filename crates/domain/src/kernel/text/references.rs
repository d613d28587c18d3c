//! References to issues and merge requests, and issues that a text closes.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::kernel::text::code_blocks::{TextPart, parts, without_code};

/// Maximum number of references in a text; further ones are ignored.
const MAX_REFERENCES: usize = 100;

/// Maximum number of references that are scanned in a text, including duplicates.
const MAX_CANDIDATES: usize = 10_000;

/// Maximum number of bytes by which [`qualify`] extends a text; further references do not change.
const MAX_ADDED_BYTES: usize = 64 * 1024;

/// The largest IIDs of a project. Larger numbers, such as colors, are no references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargestIids {
    /// The largest IID of an issue.
    pub issue: i64,
    /// The largest IID of a merge request.
    pub merge_request: i64,
}

/// A reference to an issue or merge request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    /// The project; by default that of the text. A name without a slash belongs to the same namespace.
    pub project: Option<String>,
    /// The IID within that project.
    pub iid: i64,
}

/// A closing keyword and the references after it, separated by commas, `and` and spaces.
static CLOSING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = r"clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?";
    let reference = r"(?:issues?\s+)?(?:https?://[^\s#]+/issues/\d+|[\w./-]*#\d+\b)";
    let pattern =
        format!(r"(?i)(?:^|[^\w/-])(?:{words}):?\s+({reference}(?:(?:\s*,?\s+and\s+|\s*,?\s*){reference})*)");
    Regex::new(&pattern).ok()
});

/// An issue by its address, or by its IID with an optional project. An address cannot continue past the `#`,
/// which bounds the search. A number after `&` is a character entity.
static ISSUE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?P<address>https?://[^\s#]+/issues/(?P<number>\d+))|(?:^|[^\w./&-])(?P<project>[\w./-]*)#(?P<iid>\d+)\b",
    )
    .ok()
});

/// A merge request in the same forms.
static MERGE_REQUEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?P<address>https?://[^\s#!]+/merge_requests/(?P<number>\d+))|(?P<project>\w[\w./-]*|\B)!(?P<iid>\d+)\b",
    )
    .ok()
});

/// Returns whether a text can contain mentions or references. A text without them needs no further analysis.
#[must_use]
pub fn has_references(text: &str) -> bool {
    text.contains(['@', '#', '!']) || text.contains("://")
}

/// Returns the issues that a text closes (`Closes #1, #2 and group/project#3`), each once, in order. `base`
/// is the address of this server; addresses of other servers are ignored. Code is ignored.
#[must_use]
pub fn closed_issues(text: &str, base: &str) -> Vec<Reference> {
    let (Some(closing), Some(issue)) = (&*CLOSING, &*ISSUE) else {
        return Vec::new();
    };
    let prose = without_code(text);
    let lists = closing.captures_iter(&prose).filter_map(|found| found.get(1));
    let all = lists.flat_map(|list| issue.captures_iter(list.as_str()));
    distinct(all.filter_map(|found| reference(&found, base, "issues")))
}

/// Returns the issues that a text references (`#1`, `group/project#2`, or an address), each once, in order.
#[must_use]
pub fn issues(text: &str, base: &str) -> Vec<Reference> {
    named(text, base, &ISSUE, "issues")
}

/// Returns the merge requests that a text references (`!1`, `group/project!2`, or an address), each once, in
/// order.
#[must_use]
pub fn merge_requests(text: &str, base: &str) -> Vec<Reference> {
    named(text, base, &MERGE_REQUEST, "merge_requests")
}

/// Returns a text of a project in which the project of each short reference (`#1`, `!2`) is named, so that the text has
/// the same meaning in another project. Code does not change.
#[must_use]
pub fn qualify(text: &str, project: &str, largest: LargestIids) -> String {
    let (Some(issue), Some(merge_request)) = (&*ISSUE, &*MERGE_REQUEST) else {
        return text.to_owned();
    };
    let mut added = 0;
    let mut qualified = String::with_capacity(text.len());
    for part in parts(text) {
        match part {
            TextPart::Prose(prose) => {
                let prose = insert_project(prose, project, (issue, largest.issue), &mut added);
                let pattern = (merge_request, largest.merge_request);
                qualified.push_str(&insert_project(&prose, project, pattern, &mut added));
            }
            TextPart::Span(code) | TextPart::Block(code) => qualified.push_str(code),
        }
    }
    qualified
}

/// Inserts the project into the references of one kind.
fn insert_project(
    prose: &str,
    project: &str,
    (pattern, largest): (&Regex, i64),
    added: &mut usize,
) -> String {
    let mut result = String::with_capacity(prose.len());
    let mut from = 0;
    for found in pattern.captures_iter(prose) {
        let (Some(place), Some(iid)) = (found.name("project"), found.name("iid")) else {
            continue;
        };
        let is_known = iid.as_str().parse().is_ok_and(|iid: i64| iid <= largest);
        if !place.as_str().is_empty() || !is_known {
            continue;
        }
        if *added + project.len() > MAX_ADDED_BYTES {
            break;
        }
        *added += project.len();
        result.push_str(prose.get(from..place.start()).unwrap_or_default());
        result.push_str(project);
        from = place.start();
    }
    result.push_str(prose.get(from..).unwrap_or_default());
    result
}

fn named(text: &str, base: &str, pattern: &Option<Regex>, kind: &str) -> Vec<Reference> {
    let Some(pattern) = pattern else {
        return Vec::new();
    };
    let prose = without_code(text);
    let all = pattern.captures_iter(&prose);
    distinct(all.filter_map(|found| reference(&found, base, kind)))
}

fn distinct(all: impl Iterator<Item = Reference>) -> Vec<Reference> {
    let mut distinct = Vec::new();
    for one in all.take(MAX_CANDIDATES) {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
        if distinct.len() == MAX_REFERENCES {
            break;
        }
    }
    distinct
}

fn reference(found: &Captures<'_>, base: &str, kind: &str) -> Option<Reference> {
    if let (Some(address), Some(number)) = (found.name("address"), found.name("number")) {
        let path = address.as_str().strip_prefix(base)?.strip_prefix('/')?;
        let path = path.strip_suffix(number.as_str())?.strip_suffix('/')?;
        let path = path.strip_suffix(kind)?.strip_suffix('/')?;
        return Some(Reference {
            project: Some(path.strip_suffix("/-").unwrap_or(path).to_owned()),
            iid: number.as_str().parse().ok()?,
        });
    }
    let project = found
        .name("project")
        .map(|project| project.as_str())
        .unwrap_or_default();
    Some(Reference {
        project: (!project.is_empty()).then(|| project.to_owned()),
        iid: found.name("iid")?.as_str().parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://git.example.com";

    fn all(found: Vec<Reference>) -> Vec<String> {
        let shown = found.into_iter().map(|one| match one.project {
            Some(project) => format!("{project} {}", one.iid),
            None => one.iid.to_string(),
        });
        shown.collect()
    }

    #[test]
    fn closing_keywords_match_in_all_forms_and_cases() {
        for word in [
            "Close",
            "closes",
            "Closed",
            "CLOSING",
            "Fix",
            "fixes",
            "fixed",
            "Fixing",
            "Resolve",
            "resolves",
            "Resolved",
            "resolving",
            "Implement",
            "implements",
            "implemented",
            "Implementing",
        ] {
            assert_eq!(all(closed_issues(&format!("{word} #7"), BASE)), ["7"], "{word}");
            assert_eq!(
                all(closed_issues(&format!("It {word}: #7."), BASE)),
                ["7"],
                "{word}:"
            );
        }
    }

    #[test]
    fn closing_keyword_applies_to_list_of_references() {
        for (text, found) in [
            (
                "Closes #1, #2 and group/project#3",
                &["1", "2", "group/project 3"][..],
            ),
            ("closes #1 #2, and #3 and thing#4", &["1", "2", "3", "thing 4"]),
            ("Fixes issue #1 and issues #2", &["1", "2"]),
            ("Fixes #1\nResolves top/sub/p.x-y#2", &["1", "top/sub/p.x-y 2"]),
            ("Fixes #1, #1 and #1", &["1"]),
            (
                "Closes https://git.example.com/a/b/-/issues/5 and https://git.example.com/a/b/c/issues/6",
                &["a/b 5", "a/b/c 6"],
            ),
        ] {
            assert_eq!(all(closed_issues(text, BASE)), found, "{text}");
        }
    }

    #[test]
    fn similar_text_closes_no_issue() {
        for text in [
            "See #1",
            "Closes nothing, see #1",
            "Unfixes #1",
            "closest #1",
            "Closes#1",
            "Closes !1",
            "Closes https://elsewhere.example.com/a/b/-/issues/5",
            "Closes #99999999999999999999",
            "fix-closes #1",
            "Closes #1a",
            "`Closes #1`",
            "```\nCloses #1\n```",
        ] {
            assert!(closed_issues(text, BASE).is_empty(), "{text}");
        }
        assert_eq!(all(closed_issues("Closes #1 and see #2", BASE)), ["1"]);
    }

    #[test]
    fn merge_requests_are_found_by_iid_path_and_url() {
        let text =
            "See !1, group/project!2 and https://git.example.com/a/b/-/merge_requests/3, not x!y or wow!";
        assert_eq!(all(merge_requests(text, BASE)), ["1", "group/project 2", "a/b 3"]);
    }

    #[test]
    fn short_references_are_qualified() {
        let largest = LargestIids {
            issue: 9,
            merge_request: 3,
        };
        for (text, qualified) in [
            (
                "#1, (#2) and !3: `#1`\n\n```\n!1\n```\nFixes #9",
                "a/b#1, (a/b#2) and a/b!3: `#1`\n\n```\n!1\n```\nFixes a/b#9",
            ),
            ("`x`!1 #1", "`x`a/b!1 a/b#1"),
            ("thing#1, c/d#2 and c/d!3", "thing#1, c/d#2 and c/d!3"),
            (
                "color #123456, !4, &#3; and #1a",
                "color #123456, !4, &#3; and #1a",
            ),
            (
                "https://git.example.com/a/b/-/issues/4 and https://git.example.com/a/b/-/merge_requests/1",
                "https://git.example.com/a/b/-/issues/4 and https://git.example.com/a/b/-/merge_requests/1",
            ),
            ("", ""),
        ] {
            assert_eq!(qualify(text, "a/b", largest), qualified);
        }
        let many = "#1 ".repeat(100_000);
        let added = qualify(&many, "a/b", largest).len() - many.len();
        assert!(added > MAX_ADDED_BYTES - 3 && added <= MAX_ADDED_BYTES, "{added}");
    }

    #[test]
    fn references_beyond_maximum_are_ignored() {
        let many: Vec<String> = (1..=500).map(|number| format!("#{number}")).collect();
        assert_eq!(
            closed_issues(&format!("Closes {}", many.join(", ")), BASE).len(),
            MAX_REFERENCES
        );
    }

    #[test]
    fn issues_are_found_by_iid_path_and_url() {
        let text =
            "See #1, (group/project#2), thing#3 and https://git.example.com/a/b/-/issues/4, not &#39; or #5a";
        assert_eq!(
            all(issues(text, BASE)),
            ["1", "group/project 2", "thing 3", "a/b 4"]
        );
        assert!(issues("`#1`\n```\n#2\n```", BASE).is_empty());
    }

    #[test]
    fn hostile_references_take_linear_time() {
        for part in [
            "http://!1",
            "http://#1",
            "http://a/issues/",
            "#",
            "a/",
            "closes #1,",
            "fixes ",
        ] {
            let text = part.repeat(100_000);
            let found = issues(&text, BASE).len() + merge_requests(&text, BASE).len();
            assert!(found + closed_issues(&text, BASE).len() < 5, "{part}");
        }
    }
}
