//! Which names branches and tags may bear: Git's rules, and a few so that no name is mistaken for something else.

use super::{Error, Result};

/// The longest name in bytes; with `.lock` appended every component must still fit a file name.
const LONGEST_NAME: usize = 1024;

/// The longest component in bytes.
const LONGEST_COMPONENT: usize = 250;

/// Checks the short name of a branch.
///
/// Besides what `git check-ref-format --branch` refuses, a name may not start with `refs/`, nor look like a full
/// object id, nor be `HEAD`: such a branch could pose as something else.
///
/// # Errors
/// [`Error::InvalidReferenceName`].
pub fn check_branch_name(name: &str) -> Result<()> {
    check(name)
}

/// Checks the short name of a tag, by the rules of [`check_branch_name`].
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

/// The rules of `git check-ref-format`, and no leading `-`.
fn is_well_formed(name: &str) -> bool {
    let forbidden =
        |c: char| c.is_ascii_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name != "@"
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(forbidden)
        && name.split('/').all(|component| {
            !component.is_empty()
                && component.len() <= LONGEST_COMPONENT
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
    fn agrees_with_git() {
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
            // Git takes these for expressions there: what they name is checked, not they.
            if name.starts_with("@{") || name == "@" || name == "HEAD" {
                continue;
            }
            assert_eq!(is_well_formed(&name), git_accepts(&name), "{name:?}");
        }
    }

    #[test]
    fn refuses_names_that_pose_as_something_else() {
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
