//! Validation of branch and tag names: Git's rules, and a few more that prevent ambiguous names.

use super::{Error, Result};

/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// Maximum length of a component in bytes; with `.lock` appended it must fit into a file name.
const MAX_COMPONENT_BYTES: usize = 250;

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

    use super::{check, is_well_formed};

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
