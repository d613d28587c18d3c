//! Validation of the names of references: Git's rules, and a few more that prevent ambiguous names.

use super::{Error, Result};

/// Maximum length of a full name in bytes; libgit2 cannot read longer names.
pub(super) const MAX_FULL_NAME_BYTES: usize = 1023;

/// Maximum length of a name in bytes, so that the full name of a branch is not too long.
const MAX_NAME_BYTES: usize = MAX_FULL_NAME_BYTES - "refs/heads/".len();

/// Maximum length of a component in bytes; with `.lock` appended it must fit into a file name.
const MAX_COMPONENT_BYTES: usize = 250;

/// Namespace of the heads of merge requests. Clients can fetch them.
const MERGE_REQUESTS: &str = "refs/merge-requests";
/// Namespaces of references that only the server changes. Replacements of objects are among them, because they would
/// change what other programs read.
const INTERNAL_NAMESPACES: [&str; 7] = [
    "refs/environments",
    "refs/holdfast",
    "refs/keep-around",
    MERGE_REQUESTS,
    "refs/pipelines",
    "refs/replace",
    "refs/tmp",
];

/// Returns the namespaces that a push can neither see nor change.
pub(super) fn hidden_from_pushes() -> impl Iterator<Item = &'static str> {
    INTERNAL_NAMESPACES.into_iter()
}

/// Returns the namespaces that a fetch cannot see.
pub(super) fn hidden_from_fetches() -> impl Iterator<Item = &'static str> {
    hidden_from_pushes().filter(|namespace| *namespace != MERGE_REQUESTS)
}

/// Returns whether a push can never change a reference: the reference is internal, or its full name has no namespace. Git
/// rejects the commands of such references one by one, and applies the other commands of the push.
#[must_use]
pub fn is_reserved_reference(name: &str) -> bool {
    let is_below = |namespace: &str| {
        let rest = name.strip_prefix(namespace);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let rest = name.strip_prefix("refs/");
    rest.is_none_or(|rest| !rest.contains('/')) || INTERNAL_NAMESPACES.into_iter().any(is_below)
}

/// Returns whether a reference is in a namespace of the users of a repository: it is neither a branch nor a tag, and not
/// reserved.
#[must_use]
pub fn is_custom_reference(name: &str) -> bool {
    !["refs/heads/", "refs/tags/"]
        .into_iter()
        .any(|prefix| name.starts_with(prefix))
        && !is_reserved_reference(name)
}

/// Checks the full name of a custom reference, such as `refs/notes/commits`.
///
/// # Errors
/// [`Error::InvalidReferenceName`].
pub fn check_custom_reference_name(name: &str) -> Result<()> {
    match is_custom_reference(name) && is_well_formed(name) {
        true => Ok(()),
        false => Err(Error::InvalidReferenceName),
    }
}

/// Checks the short name of a branch.
///
/// In addition to the rules of `git check-ref-format --branch`, a name must not start with `refs/`, look like
/// a full object ID or be `HEAD`. Such a branch could be mistaken for something else.
///
/// # Errors
/// [`Error::InvalidReferenceName`].
pub fn check_branch_name(name: &str) -> Result<()> {
    check(name)
}

/// Checks the short name of a tag by the rules of [`check_branch_name`].
///
/// # Errors
/// [`Error::InvalidReferenceName`].
pub fn check_tag_name(name: &str) -> Result<()> {
    check(name)
}

fn check(name: &str) -> Result<()> {
    let poses = name == "HEAD"
        || name.starts_with("refs/")
        || (name.len() == 40 && name.bytes().all(|b| b.is_ascii_hexdigit()));
    if !poses && is_well_formed(name) {
        Ok(())
    } else {
        Err(Error::InvalidReferenceName)
    }
}

/// Checks the rules of `git check-ref-format`, and forbids a leading `-`.
fn is_well_formed(name: &str) -> bool {
    let forbidden =
        |c: char| c.is_ascii_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name != "@"
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(forbidden)
        && name.split('/').all(|component| {
            !component.is_empty()
                && component.len() <= MAX_COMPONENT_BYTES
                && !component.starts_with('.')
                && !component.ends_with(".lock")
        })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{
        check, check_custom_reference_name, hidden_from_fetches, is_custom_reference, is_reserved_reference,
        is_well_formed,
    };

    fn git_accepts(name: &str) -> bool {
        Command::new("git")
            .args(["check-ref-format", "--branch", name])
            .current_dir("/")
            .output()
            .is_ok_and(|output| output.status.success())
    }

    #[test]
    fn ref_name_check_matches_git() {
        let tokens = [
            "a", "B", ".", "..", "/", "-", "@", "{", "~", "^", ":", "?", "*", "[", "\\", " ", "\u{7f}", "ä",
        ];
        let more = [".lock", "\t", "HEAD", "x.locks", "#", "%", "}", "]", "+", "日本"];
        let tokens: Vec<&str> = tokens.into_iter().chain(more).collect();
        let mut names: Vec<String> = tokens.iter().map(|&token| token.to_owned()).collect();
        for first in &tokens {
            names.extend(
                ["a", "/", ".lock", "{"]
                    .iter()
                    .map(|second| format!("{first}{second}")),
            );
            names.push(format!("x{first}"));
            names.push(format!("x/{first}/y"));
        }
        for name in names {
            // Git expands these as expressions and checks the result instead.
            if name.starts_with("@{") || name == "@" || name == "HEAD" {
                continue;
            }
            assert_eq!(is_well_formed(&name), git_accepts(&name), "{name:?}");
        }
    }

    #[test]
    fn custom_references_are_outside_of_branches_tags_and_reserved_names() {
        for name in [
            "refs/notes/commits",
            "refs/keep/x",
            "refs/merge-requests-x/1",
            "refs/remotes/origin/main",
        ] {
            assert!(
                is_custom_reference(name) && check_custom_reference_name(name).is_ok(),
                "{name}"
            );
        }
        for name in ["refs/heads/main", "refs/tags/v1"] {
            assert!(
                !is_custom_reference(name) && !is_reserved_reference(name),
                "{name}"
            );
        }
        for name in [
            "HEAD",
            "notes/x",
            "refs/stash",
            "refs/keep-around",
            "refs/keep-around/x",
            "refs/merge-requests/1/head",
            "refs/replace/x",
        ] {
            assert!(
                is_reserved_reference(name) && !is_custom_reference(name),
                "{name}"
            );
        }
        let long = format!("refs/x/{}", vec!["x".repeat(200); 6].join("/"));
        for name in [
            "refs/notes/a..b",
            "refs/notes/x.lock",
            "refs/notes/",
            long.as_str(),
        ] {
            assert!(check_custom_reference_name(name).is_err(), "{name}");
        }
        assert!(hidden_from_fetches().all(|namespace| namespace != "refs/merge-requests"));
    }

    #[test]
    fn ref_name_rejects_ambiguous_names() {
        for name in [
            "HEAD",
            "refs/heads/x",
            "refs/x",
            "0123456789abcdef0123456789ABCDEF01234567",
            "@",
            "-x",
            "",
        ] {
            assert!(check(name).is_err(), "{name:?}");
        }
        for name in [
            "head",
            "ref/x",
            "feature/refs/x",
            "0123456789abcdef",
            "v1.0",
            "a@b",
            "日本/ä",
        ] {
            assert!(check(name).is_ok(), "{name:?}");
        }
        assert!(check(&"x".repeat(251)).is_err());
        assert!(check(&vec!["x".repeat(200); 6].join("/")).is_err());
    }
}
