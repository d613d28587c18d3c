//! Versions of crates: Semantic Versioning 2.0.0.

use semver::Version;

/// Maximum length of a version, in bytes.
const MAX_BYTES: usize = 150;

/// A valid version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrateVersion {
    text: String,
    version: Version,
}

/// Error of an invalid version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a semantic version such as 1.0.0, with at most 150 characters")]
pub struct InvalidCrateVersion;

impl CrateVersion {
    /// Parses a version.
    ///
    /// # Errors
    /// Returns [`InvalidCrateVersion`] if it is invalid.
    pub fn parse(text: &str) -> Result<Self, InvalidCrateVersion> {
        if text.len() > MAX_BYTES {
            return Err(InvalidCrateVersion);
        }
        let version = Version::parse(text).map_err(|_| InvalidCrateVersion)?;
        Ok(Self {
            text: text.to_owned(),
            version,
        })
    }

    /// Returns whether two versions are equal without their build metadata, which Cargo ignores.
    #[must_use]
    pub fn is_same_release(&self, other: &Self) -> bool {
        let release = |version: &Version| (version.major, version.minor, version.patch);
        release(&self.version) == release(&other.version) && self.version.pre == other.version.pre
    }

    /// Returns the version as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_version_is_strict() {
        for good in ["0.0.0", "1.2.3", "1.2.3-rc.1", "1.2.3-rc.1+build.7"] {
            assert!(
                CrateVersion::parse(good).is_ok_and(|version| version.as_str() == good),
                "{good}"
            );
        }
        let long = format!("1.0.0-{}", "a".repeat(145));
        for bad in [
            "",
            "1",
            "1.2",
            "v1.2.3",
            " 1.2.3",
            "01.2.3",
            "1.2.3-",
            "1.2.3/../4",
            "1.2.3\0",
            "^1.2.3",
            &long,
        ] {
            assert_eq!(CrateVersion::parse(bad), Err(InvalidCrateVersion), "{bad}");
        }
        assert!(CrateVersion::parse(&long[..150]).is_ok());
    }

    #[test]
    fn build_metadata_is_ignored() {
        for (one, other, expected) in [
            ("1.0.0", "1.0.0+a", true),
            ("1.0.0+b", "1.0.0+a", true),
            ("1.0.0-rc.1", "1.0.0-rc.1+a", true),
            ("1.0.0-rc.1", "1.0.0", false),
            ("1.0.0", "1.0.1", false),
        ] {
            let [one, other] = [one, other].map(|text| CrateVersion::parse(text).expect("a version"));
            assert_eq!(one.is_same_release(&other), expected, "{one:?} {other:?}");
        }
    }
}
