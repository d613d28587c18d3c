//! Validation of paths in a tree: no traversal; leading `/` and `./` are dropped.
//!
//! Git forbids `.git` at any depth. Clients with case-insensitive or Unicode-normalizing file systems can be
//! attacked with names that become `.git` there. All such names are rejected, independent of this server's file
//! system.

use std::fmt;

use super::ActionError;

/// Maximum length of a path in bytes; most operating systems can still check out such a path.
const MAX_PATH_BYTES: usize = 4096;

/// Maximum length of a path component in bytes.
const MAX_COMPONENT_BYTES: usize = 255;

/// Maximum depth of a path.
const MAX_PATH_DEPTH: usize = 256;

/// A path inside a tree that is safe to write: relative, separated by `/`, without empty, `.`, `..` or `.git`
/// components in any form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreePath(String);

impl TreePath {
    /// Normalizes and checks a path from a client.
    ///
    /// # Errors
    /// [`ActionError::DirectoryTraversal`], [`ActionError::PathEmpty`] or [`ActionError::PathInvalid`].
    pub fn parse(text: &str) -> Result<Self, ActionError> {
        let invalid = || ActionError::PathInvalid(text.chars().take(200).collect());
        let components: Vec<&str> = components(text).collect();
        if components.contains(&"..") {
            return Err(ActionError::DirectoryTraversal);
        }
        if components.is_empty() {
            return Err(ActionError::PathEmpty);
        }
        let path = components.join("/");
        if path.len() > MAX_PATH_BYTES || components.len() > MAX_PATH_DEPTH {
            return Err(invalid());
        }
        if components
            .iter()
            .any(|component| !is_component_allowed(component))
        {
            return Err(invalid());
        }
        Ok(Self(path))
    }

    /// Returns the normalized path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the components from the root to the last.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Returns the last component.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the components of a path that is only read, without empty ones and `.`. Trees contain no `..`, so
/// it needs no rejection.
pub(super) fn components(text: &str) -> impl Iterator<Item = &str> {
    text.split('/')
        .filter(|component| !matches!(*component, "" | "."))
}

/// Returns whether a symbolic link may have the name. Git reads files such as `.gitmodules` and must never
/// follow a link to do so.
pub(super) fn may_be_symlink(name: &str) -> bool {
    const NAMES: [&str; 4] = [".gitmodules", ".gitattributes", ".gitignore", ".mailmap"];
    const SHORT: [&str; 8] = [
        "gitmod", "gitatt", "gitign", "mailma", "gi7eba", "gi7d29", "gi250a", "maba30",
    ];
    !may_name(name, &NAMES, &SHORT)
}

/// Returns whether a client can read a file with the name as `.gitmodules`.
pub(super) fn is_gitmodules(name: &str) -> bool {
    may_name(name, &[".gitmodules"], &["gitmod", "gi7eba"])
}

/// Returns whether a file system treats the name as one of several names: case-insensitively, with trailing dots,
/// spaces or a stream name (NTFS), by a short name with one of several stems (NTFS), or with code points that HFS+
/// ignores.
fn may_name(name: &str, names: &[&str], short: &[&str]) -> bool {
    name.split('\\').any(|part| {
        let visible: String = part.chars().filter(|&c| !is_hfs_ignored(c)).collect();
        let stem = visible.split(':').next().unwrap_or_default();
        let plain = stem.trim_end_matches(['.', ' ']).to_ascii_lowercase();
        let is_short = |(stem, number): (&str, &str)| {
            short.contains(&stem) && number.bytes().all(|b| b.is_ascii_digit())
        };
        names.contains(&plain.as_str()) || plain.split_once('~').is_some_and(is_short)
    })
}

fn is_component_allowed(component: &str) -> bool {
    component.len() <= MAX_COMPONENT_BYTES
        && !component.chars().any(char::is_control)
        && !component.split('\\').any(is_dot_git)
}

/// Returns whether a file system treats the name as `.git`: case-insensitively, with trailing dots, spaces or
/// a stream name (NTFS), by its short name (NTFS), or with code points that HFS+ ignores.
fn is_dot_git(name: &str) -> bool {
    let visible: String = name.chars().filter(|&c| !is_hfs_ignored(c)).collect();
    let stem = visible
        .split(':')
        .next()
        .unwrap_or_default()
        .trim_end_matches(['.', ' ']);
    stem.eq_ignore_ascii_case(".git") || stem.eq_ignore_ascii_case("git~1")
}

/// Returns whether HFS+ drops the code point when it compares names.
fn is_hfs_ignored(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::{TreePath, may_be_symlink};
    use crate::ActionError;

    /// Seed of the random paths, the same in every run.
    const SEED: u64 = 20_261_121;

    #[test]
    fn path_normalizes_slashes_and_dots() {
        for (given, expected) in [
            ("a", "a"),
            ("/a/b", "a/b"),
            ("///a//b/", "a/b"),
            ("./a/./b", "a/b"),
            (".//./x", "x"),
            ("dir/.", "dir"),
            ("a b/ä/日本.txt", "a b/ä/日本.txt"),
            ("...", "..."),
            ("a\\b", "a\\b"),
            ("..a/b..", "..a/b.."),
        ] {
            assert_eq!(TreePath::parse(given).unwrap().as_str(), expected, "{given:?}");
        }
    }

    #[test]
    fn path_rejects_traversal_and_empty_path() {
        for given in ["..", "../a", "a/..", "a/../b", "/..", "./../x", "a//../b"] {
            assert_eq!(
                TreePath::parse(given),
                Err(ActionError::DirectoryTraversal),
                "{given:?}"
            );
        }
        for given in ["", "/", "//", ".", "./", "/./."] {
            assert_eq!(TreePath::parse(given), Err(ActionError::PathEmpty), "{given:?}");
        }
    }

    #[test]
    fn path_rejects_all_spellings_of_git_directory() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            ".git.",
            ".git ",
            ".git. .",
            "git~1",
            "GIT~1",
            "GiT~1 ",
            ".git:x",
            ".git::$INDEX_ALLOCATION",
            ".git .:stream",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\u{206f}",
            ".gi\u{202e}T",
            ".git\\config",
            "x\\.git",
            "x\\git~1\\y",
        ] {
            for path in [
                name.to_owned(),
                format!("{name}/config"),
                format!("a/b/{name}"),
                format!("a/{name}/hooks/x"),
            ] {
                assert!(
                    matches!(TreePath::parse(&path), Err(ActionError::PathInvalid(_))),
                    "{path:?}"
                );
            }
        }
    }

    #[test]
    fn path_accepts_names_similar_to_git_directory() {
        for name in [
            ".gitignore",
            ".gitmodules",
            ".github",
            "git",
            ".git2",
            "a.git",
            "x.git/y",
            "git~2",
            ".gitx:y",
        ] {
            assert!(TreePath::parse(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn path_rejects_control_characters() {
        for code in (0u32..0x20).chain(0x7f..0xa0) {
            let path = format!("a/b{}c", char::from_u32(code).unwrap());
            assert!(
                matches!(TreePath::parse(&path), Err(ActionError::PathInvalid(_))),
                "{code:#x}"
            );
        }
    }

    #[test]
    fn path_limits_length_and_depth() {
        assert!(TreePath::parse(&"x".repeat(255)).is_ok());
        assert!(TreePath::parse(&"x".repeat(256)).is_err());
        assert!(TreePath::parse(&"ä".repeat(128)).is_err());
        assert!(TreePath::parse(&vec!["d"; 256].join("/")).is_ok());
        assert!(TreePath::parse(&vec!["d"; 257].join("/")).is_err());
        let long = vec!["y".repeat(200); 20].join("/");
        assert!(TreePath::parse(&long).is_ok());
        assert!(TreePath::parse(&format!("{long}/{}", "z".repeat(100))).is_err());
    }

    #[test]
    fn parsing_is_idempotent_for_random_paths() {
        use rand::{RngExt, SeedableRng};
        let alphabet = [
            "a", "B", ".", "..", "/", "\\", " ", ":", "~1", ".git", "git", "\u{200c}", "ä", "\u{1}", "-",
        ];
        let mut random = rand::rngs::StdRng::seed_from_u64(SEED);
        for _ in 0..20_000 {
            let path: String = (0..random.random_range(0..9))
                .map(|_| alphabet[random.random_range(0..alphabet.len())])
                .collect();
            let Ok(parsed) = TreePath::parse(&path) else {
                continue;
            };
            assert_eq!(TreePath::parse(parsed.as_str()), Ok(parsed.clone()));
            for component in parsed.components() {
                assert!(!matches!(component, "" | "." | ".."), "{path:?}");
                assert!(!component.eq_ignore_ascii_case(".git"), "{path:?}");
            }
        }
    }

    #[tokio::test]
    async fn path_rejects_every_name_that_fsck_rejects() {
        use rand::{RngExt, SeedableRng};
        let fixture = crate::testing::Fixture::new("main").await;
        let tokens = [
            ".git", "GIT", ".", "g", "it", "~1", "~2", "\\", ":", " ", "\u{200c}", "\u{feff}", "x", ".g",
            "iT",
        ];
        let mut random = rand::rngs::StdRng::seed_from_u64(SEED);
        let mut pick = || -> String {
            (0..random.random_range(1..5))
                .map(|_| tokens[random.random_range(0..tokens.len())])
                .collect()
        };
        let names: std::collections::BTreeSet<String> = (0..4000).map(|_| pick()).collect();
        let blob = fixture.git_stdin(&["hash-object", "-w", "--stdin"], b"");
        let blob = blob.trim();
        let trees: String = names
            .iter()
            .map(|name| format!("100644 blob {blob}\t{name}\0\0"))
            .collect();
        let trees = fixture.git_stdin(&["mktree", "--batch", "-z"], trees.as_bytes());
        let output = fixture.command(&["fsck", "--no-dangling"]).output().unwrap();
        let stderr_text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(trees.lines().count(), names.len());
        let mut rejected = 0;
        for (name, tree) in names.iter().zip(trees.lines()) {
            if stderr_text.contains(tree) {
                rejected += 1;
                // A single dot is dropped, not rejected.
                assert!(name == "." || TreePath::parse(name).is_err(), "{name:?}");
            }
        }
        assert!(rejected > 20, "{rejected} of {}: {stderr_text}", names.len());
    }

    #[test]
    fn symlink_cannot_replace_files_that_git_reads() {
        for name in [
            ".gitmodules",
            ".GitModules",
            ".gitmodules. ",
            "gitmod~1",
            ".git\u{200d}attributes",
            ".mailmap",
            ".gitmodules::$DATA",
            "x\\.gitmodules",
        ] {
            assert!(!may_be_symlink(name), "{name:?}");
        }
        for name in ["link", "gitmodules", ".gitmodules.txt", "gitmod~x"] {
            assert!(may_be_symlink(name), "{name:?}");
        }
    }
}
