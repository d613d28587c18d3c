//! Image names, which start with the path of a project.

use std::fmt;

/// Maximum length of a name in bytes, which clients accept together with a host name.
const MAX_BYTES: usize = 255;
/// Maximum number of segments after the path of the project.
const MAX_IMAGE_SEGMENTS: usize = 2;

/// A valid name: segments of lowercase letters and digits, separated by `.`, `_`, `__` or dashes inside a
/// segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName(String);

/// Error of an invalid name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name must have at most 255 characters, in components of lowercase letters and digits")]
pub struct InvalidImageName {
    /// The name, with escape sequences for all characters except printable ASCII.
    pub escaped_name: String,
}

impl ImageName {
    /// Parses a name.
    ///
    /// # Errors
    /// Returns [`InvalidImageName`] if it is invalid.
    pub fn parse(text: &str) -> Result<Self, InvalidImageName> {
        if text.len() <= MAX_BYTES && text.split('/').all(is_part) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidImageName {
            escaped_name: text.escape_default().to_string(),
        })
    }

    /// Returns the possible splits into the path of a project, which has at least two segments, and the name
    /// of a repository. The longest path comes first.
    pub fn possible_splits(&self) -> impl Iterator<Item = (&str, &str)> {
        let ends = self.0.match_indices('/').map(|(index, _)| index);
        let mut cuts: Vec<usize> = ends.skip(1).collect();
        if self.0.contains('/') {
            cuts.push(self.0.len());
        }
        cuts.into_iter().rev().take(MAX_IMAGE_SEGMENTS + 1).map(|cut| {
            let (path, image) = self.0.split_at(cut);
            (path, image.trim_start_matches('/'))
        })
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_part(part: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let ends = bytes.first().is_some_and(plain) && bytes.last().is_some_and(plain);
    ends && bytes.split(plain).all(|between| {
        matches!(between, b"" | b"." | b"_" | b"__") || between.iter().all(|byte| *byte == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_name_follows_distribution_spec() {
        for good in [
            "a",
            "a/b",
            "group/sub-group/my__app/web.v2",
            "0",
            "a---b",
            "a.b_c",
        ] {
            assert!(ImageName::parse(good).is_ok(), "{good}");
        }
        let long = "a/".repeat(128) + "a";
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "A",
            "a_",
            "-a",
            "a..b",
            "a___b",
            "a._b",
            "a b",
            "ä",
            "a/../b",
            "a\0",
            long.as_str(),
        ] {
            assert!(ImageName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn repository_name_resolves_longest_project_path_first() {
        let readings = |text| {
            let name = ImageName::parse(text).expect("a name");
            name.possible_splits()
                .map(|(path, image)| format!("{path} {image}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(readings("a"), Vec::<String>::new());
        assert_eq!(readings("a/b"), ["a/b "]);
        assert_eq!(readings("a/b/c"), ["a/b/c ", "a/b c"]);
        assert_eq!(readings("a/b/c/d/e"), ["a/b/c/d/e ", "a/b/c/d e", "a/b/c d/e"]);
    }
}
