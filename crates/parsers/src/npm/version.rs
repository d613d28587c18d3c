//! Versions of npm packages: Semantic Versioning 2.0.0.

use std::cmp::Ordering;

use semver::Version;

/// Maximum length of a version, in bytes.
const MAX_BYTES: usize = 255;
/// Maximum value of a number in a version: clients read larger integers inexactly.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// A valid version. Versions are ordered by precedence; build metadata is compared last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpmVersion {
    text: String,
    version: Version,
}

/// Error of an invalid version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a semantic version such as 1.0.0, with at most 255 characters")]
pub struct InvalidNpmVersion;

impl NpmVersion {
    /// Parses a version.
    ///
    /// # Errors
    /// Returns [`InvalidNpmVersion`] if it is invalid.
    pub fn parse(text: &str) -> Result<Self, InvalidNpmVersion> {
        if text.len() > MAX_BYTES {
            return Err(InvalidNpmVersion);
        }
        let version = Version::parse(text).map_err(|_| InvalidNpmVersion)?;
        if version.major.max(version.minor).max(version.patch) > MAX_NUMBER {
            return Err(InvalidNpmVersion);
        }
        Ok(Self {
            text: text.to_owned(),
            version,
        })
    }

    /// Returns the version as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialOrd for NpmVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NpmVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.version.cmp(&other.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_version_is_strict() {
        for good in [
            "0.0.0",
            "1.2.3",
            "1.2.3-rc.1",
            "1.2.3-rc.1+build.7",
            "9007199254740991.0.0",
        ] {
            assert!(
                NpmVersion::parse(good).is_ok_and(|version| version.as_str() == good),
                "{good}"
            );
        }
        let long = format!("1.0.0-{}", "a".repeat(250));
        for bad in [
            "",
            "1",
            "1.2",
            "v1.2.3",
            " 1.2.3",
            "1.2.3 ",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3/../4",
            "1.2.3\0",
            "^1.2.3",
            "9007199254740992.0.0",
            long.as_str(),
        ] {
            assert_eq!(NpmVersion::parse(bad), Err(InvalidNpmVersion), "{bad}");
        }
    }

    #[test]
    fn npm_versions_are_ordered_by_precedence() {
        let ordered = [
            "1.0.0-alpha",
            "1.0.0-alpha.2",
            "1.0.0-alpha.10",
            "1.0.0",
            "1.2.0",
            "1.10.0",
            "2.0.0-0",
        ];
        let mut versions: Vec<NpmVersion> = ordered
            .iter()
            .rev()
            .map(|text| NpmVersion::parse(text).expect("a version"))
            .collect();
        versions.sort();
        let texts: Vec<&str> = versions.iter().map(NpmVersion::as_str).collect();
        assert_eq!(texts, ordered);
    }
}
