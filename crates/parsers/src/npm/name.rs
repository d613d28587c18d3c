//! Names of npm packages, and names of their tags.

use std::fmt;

use super::NpmVersion;

/// Maximum length of a name with its scope, in bytes.
const MAX_NAME_BYTES: usize = 214;
/// Maximum length of a tag, in bytes.
const MAX_TAG_BYTES: usize = 255;
/// Names that npm reserves.
const RESERVED: [&str; 2] = ["node_modules", "favicon.ico"];

/// A valid name of a package, such as `web` or `@engines/web`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NpmName(String);

/// Error of an invalid name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must have at most 214 characters: letters, digits, `.`, `_`, `-` and `+`, optionally after a scope such as `@scope/`"
)]
pub struct InvalidNpmName;

impl NpmName {
    /// Parses a name.
    ///
    /// # Errors
    /// Returns [`InvalidNpmName`] if it is invalid.
    pub fn parse(text: &str) -> Result<Self, InvalidNpmName> {
        let is_valid = match text.strip_prefix('@').map(|rest| rest.split_once('/')) {
            Some(Some((scope, name))) => is_part(scope) && is_part(name),
            Some(None) => false,
            None => is_part(text) && text.starts_with(|c: char| c.is_ascii_alphanumeric()),
        };
        let is_reserved = || RESERVED.iter().any(|name| name.eq_ignore_ascii_case(text));
        match is_valid && text.len() <= MAX_NAME_BYTES && !is_reserved() {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidNpmName),
        }
    }

    /// Returns the scope without its `@`.
    #[must_use]
    pub fn scope(&self) -> Option<&str> {
        self.0.strip_prefix('@')?.split_once('/').map(|(scope, _)| scope)
    }

    /// Returns the name of the archive of a version, which contains the scope.
    #[must_use]
    pub fn file_name(&self, version: &NpmVersion) -> String {
        format!("{}-{}.tgz", self.0, version.as_str())
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NpmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a text is valid as a scope or as a name without its scope.
fn is_part(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+');
    text.bytes().all(is_allowed) && text.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

/// A valid name of a tag, such as `latest`. A tag cannot look like a version, because clients accept both in one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NpmTag(String);

impl NpmTag {
    /// The tag that clients install by default.
    #[must_use]
    pub fn latest() -> Self {
        Self("latest".to_owned())
    }

    /// Parses the name of a tag; `None` if it is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let is_valid = text.len() <= MAX_TAG_BYTES
            && is_part(text)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !number.starts_with(|c: char| c.is_ascii_digit());
        (is_valid && !text.eq_ignore_ascii_case("x")).then(|| Self(text.to_owned()))
    }

    /// Returns the tag as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NpmTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_name_accepts_scopes_and_rejects_paths() {
        for (good, scope) in [
            ("web", None),
            ("a", None),
            ("Web.js_2-x", None),
            ("@engines/web", Some("engines")),
            ("@_x/.web", Some("_x")),
        ] {
            let name = NpmName::parse(good).unwrap_or_else(|_| panic!("{good}"));
            assert_eq!((name.as_str(), name.scope()), (good, scope));
        }
        let long = "a".repeat(215);
        for bad in [
            "",
            "@",
            "@/",
            "@a",
            "@a/",
            "@/a",
            "@a/b/c",
            "@a/../b",
            "@../b",
            "@a/..",
            "a/b",
            ".a",
            "_a",
            "-",
            "-a",
            "..",
            "a b",
            "a%2fb",
            "ä",
            "a\0",
            "a~",
            "node_modules",
            "Favicon.ico",
            long.as_str(),
        ] {
            assert!(NpmName::parse(bad).is_err(), "{bad}");
        }
        assert!(NpmName::parse(&long[1..]).is_ok());
    }

    #[test]
    fn archive_name_contains_scope_and_version() {
        let name = NpmName::parse("@engines/web").expect("a name");
        let version = NpmVersion::parse("1.0.0-rc.1").expect("a version");
        assert_eq!(name.file_name(&version), "@engines/web-1.0.0-rc.1.tgz");
    }

    #[test]
    fn tag_rejects_versions_and_paths() {
        for good in ["latest", "next", "beta-1", "release_2.x", "version"] {
            assert_eq!(
                NpmTag::parse(good).map(|tag| tag.to_string()).as_deref(),
                Some(good)
            );
        }
        let long = "a".repeat(256);
        for bad in [
            "",
            "1.0.0",
            "v1",
            "1",
            "x",
            "X",
            "..",
            "-a",
            "a/b",
            "a b",
            "^1",
            "*",
            "\0",
            long.as_str(),
        ] {
            assert_eq!(NpmTag::parse(bad), None, "{bad}");
        }
    }
}
