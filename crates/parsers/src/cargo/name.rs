//! Names of crates, and the paths of their files in an index.

use std::fmt;

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Names of files that Windows reserves. Clients store a file with the name of the crate.
const RESERVED: [&str; 22] = [
    "aux", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "con", "lpt1", "lpt2",
    "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9", "nul", "prn",
];

/// A valid name of a crate, such as `gear-ratio`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CrateName(String);

/// Error of an invalid name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("must start with a letter and have at most 64 characters: letters, digits, `-` and `_`")]
pub struct InvalidCrateName;

impl CrateName {
    /// Parses a name.
    ///
    /// # Errors
    /// Returns [`InvalidCrateName`] if it is invalid.
    pub fn parse(text: &str) -> Result<Self, InvalidCrateName> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_reserved = || RESERVED.iter().any(|name| name.eq_ignore_ascii_case(text));
        let is_valid = text.len() <= MAX_NAME_BYTES
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(is_allowed)
            && !is_reserved();
        match is_valid {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidCrateName),
        }
    }

    /// Returns the form in which names are compared: lowercase, with `_` in place of `-`.
    #[must_use]
    pub fn canonical(&self) -> String {
        Self::canonical_form(&self.0)
    }

    /// Returns the form of any text in which names are compared.
    #[must_use]
    pub fn canonical_form(text: &str) -> String {
        text.to_ascii_lowercase().replace('-', "_")
    }

    /// Returns the path of the file with the versions of the crate, below the URL of the index.
    #[must_use]
    pub fn index_path(&self) -> String {
        let name = self.0.to_ascii_lowercase();
        // The name is ASCII and not empty.
        let part = |start: usize, end: usize| name.get(start..end).unwrap_or_default();
        match name.len() {
            1 => format!("1/{name}"),
            2 => format!("2/{name}"),
            3 => format!("3/{}/{name}", part(0, 1)),
            _ => format!("{}/{}/{name}", part(0, 2), part(2, 4)),
        }
    }

    /// Parses the path of a file in an index; `None` if no crate has this path. Clients request the lowercase path.
    #[must_use]
    pub fn of_index_path(path: &str) -> Option<Self> {
        let (_, name) = path.rsplit_once('/')?;
        let name = Self::parse(name).ok()?;
        name.index_path().eq_ignore_ascii_case(path).then_some(name)
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CrateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_name_has_plain_characters() {
        for good in ["a", "A", "gear-ratio", "gear_ratio2", "x-"] {
            assert!(
                CrateName::parse(good).is_ok_and(|name| name.as_str() == good),
                "{good}"
            );
        }
        let long = "a".repeat(65);
        for bad in [
            "",
            "-",
            "_a",
            "1a",
            "a b",
            "a.b",
            "a/b",
            "..",
            "é",
            "a\0",
            "a+b",
            "@a/b",
            "con",
            "NUL",
            "Com1",
            long.as_str(),
        ] {
            assert_eq!(CrateName::parse(bad), Err(InvalidCrateName), "{bad}");
        }
        assert!(CrateName::parse(&long[1..]).is_ok());
    }

    #[test]
    fn index_path_depends_on_length_and_is_lowercase() {
        for (name, path) in [
            ("a", "1/a"),
            ("Ab", "2/ab"),
            ("aBc", "3/a/abc"),
            ("Abcd", "ab/cd/abcd"),
            ("gear-ratio", "ge/ar/gear-ratio"),
            ("g-_1", "g-/_1/g-_1"),
        ] {
            let name = CrateName::parse(name).expect("a name");
            assert_eq!(name.index_path(), path);
            assert_eq!(
                CrateName::of_index_path(path)
                    .map(|name| name.index_path())
                    .as_deref(),
                Some(path)
            );
        }
        for path in [
            "",
            "a",
            "/a",
            "1/",
            "1/ab",
            "2/a",
            "3/b/abc",
            "ab/ce/abcd",
            "1/1/a",
            "ab/cd/abcd/",
            "a/b/../c",
        ] {
            assert_eq!(CrateName::of_index_path(path), None, "{path}");
        }
        assert!(CrateName::of_index_path("AB/cd/abCD").is_some());
    }

    #[test]
    fn names_are_compared_without_case_and_separators() {
        let canonical = |text| CrateName::parse(text).expect("a name").canonical();
        assert_eq!(canonical("Gear-Ratio"), canonical("gear_ratio"));
        assert_ne!(canonical("gear-ratio"), canonical("gearratio"));
    }
}
