//! Paths of files in a Maven repository.

use std::fmt;

/// Name of the files with metadata.
const METADATA_FILE: &str = "maven-metadata.xml";
/// End of a version that is replaced until its release.
const SNAPSHOT: &str = "-SNAPSHOT";
/// Maximum length of the name of a package, of a version and of the name of a file, in bytes.
const MAX_PART_BYTES: usize = 255;

/// Algorithm of a checksum, which is the extension of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MavenChecksum {
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl MavenChecksum {
    /// All algorithms.
    pub const ALL: [Self; 4] = [Self::Md5, Self::Sha1, Self::Sha256, Self::Sha512];

    /// Returns the extension of the file with a checksum.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Returns the number of hexadecimal digits.
    #[must_use]
    pub fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha1 => 40,
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }

    /// Splits the name of a file with a checksum into the name of the file that it describes, and the algorithm.
    fn split(name: &str) -> Option<(&str, Self)> {
        let (name, extension) = name.rsplit_once('.')?;
        let checksum = Self::ALL
            .into_iter()
            .find(|checksum| checksum.extension() == extension)?;
        Some((name, checksum))
    }
}

/// A valid path, such as `com/example/app/1.0/app-1.0.jar`: the group and the name of the artifact, the version, and the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MavenPath {
    name: String,
    version: Option<String>,
    file_name: String,
    checksum: Option<MavenChecksum>,
}

/// Error of an invalid path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be the path of a file in a Maven repository, such as `com/example/app/1.0/app-1.0.jar`; the name of the package, the \
     version and the name of the file can have at most {MAX_PART_BYTES} characters: letters, digits, `.`, `_`, `-` and `+`"
)]
pub struct InvalidMavenPath;

impl MavenPath {
    /// Parses a path.
    ///
    /// # Errors
    /// Returns [`InvalidMavenPath`] if it is invalid.
    pub fn parse(path: &str) -> Result<Self, InvalidMavenPath> {
        let (folder, file) = path.rsplit_once('/').ok_or(InvalidMavenPath)?;
        let (file_name, checksum) = match MavenChecksum::split(file) {
            Some((name, checksum)) => (name, Some(checksum)),
            None => (file, None),
        };
        // Metadata of an artifact is in the folder above the versions. Only snapshots have metadata of their own.
        let is_versioned = file_name != METADATA_FILE || folder.ends_with(SNAPSHOT);
        let (name, version) = match is_versioned {
            true => {
                let (name, version) = folder.rsplit_once('/').ok_or(InvalidMavenPath)?;
                (name, Some(version))
            }
            false => (folder, None),
        };
        // An artifact has a group.
        let has_group = version.is_none() || name.contains('/');
        let is_valid = has_group
            && is_part(file_name)
            && version.is_none_or(is_part)
            && name.len() <= MAX_PART_BYTES
            && name.split('/').all(is_part);
        match is_valid {
            true => Ok(Self {
                name: name.to_owned(),
                version: version.map(str::to_owned),
                file_name: file_name.to_owned(),
                checksum,
            }),
            false => Err(InvalidMavenPath),
        }
    }

    /// Returns the name of the package: the group and the name of the artifact, such as `com/example/app`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version; `None` for the metadata of an artifact or a group.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns the name of the file; for a checksum, of the file that it describes.
    #[must_use]
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Returns the algorithm if the path is that of a checksum.
    #[must_use]
    pub fn checksum(&self) -> Option<MavenChecksum> {
        self.checksum
    }

    /// Returns whether the file contains metadata, which each deployment replaces.
    #[must_use]
    pub fn is_metadata(&self) -> bool {
        self.file_name == METADATA_FILE
    }
}

impl fmt::Display for MavenPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(version) = &self.version {
            write!(f, "/{version}")?;
        }
        write!(f, "/{}", self.file_name)?;
        match self.checksum {
            Some(checksum) => write!(f, ".{}", checksum.extension()),
            None => Ok(()),
        }
    }
}

/// Returns whether a version is a snapshot, which is replaced until its release.
#[must_use]
pub fn is_snapshot(version: &str) -> bool {
    version.ends_with(SNAPSHOT)
}

/// Returns whether a part of a path is valid. Parts need no escaping in XML.
fn is_part(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+');
    !part.is_empty()
        && part.len() <= MAX_PART_BYTES
        && part.bytes().all(is_allowed)
        && !part.starts_with('.')
        && !part.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> (String, Option<String>, String, Option<MavenChecksum>) {
        let parsed = MavenPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(parsed.to_string(), path);
        (parsed.name, parsed.version, parsed.file_name, parsed.checksum)
    }

    #[test]
    fn path_is_split_into_name_version_and_file() {
        for (path, name, version, file, checksum) in [
            (
                "com/example/app/1.0/app-1.0.jar",
                "com/example/app",
                Some("1.0"),
                "app-1.0.jar",
                None,
            ),
            (
                "com/app/1.0+b/app.pom.asc",
                "com/app",
                Some("1.0+b"),
                "app.pom.asc",
                None,
            ),
            (
                "com/app/1/app.jar.sha1",
                "com/app",
                Some("1"),
                "app.jar",
                Some(MavenChecksum::Sha1),
            ),
            (
                "com/app/1/app.jar.asc.md5",
                "com/app",
                Some("1"),
                "app.jar.asc",
                Some(MavenChecksum::Md5),
            ),
            (
                "com/example/app/maven-metadata.xml",
                "com/example/app",
                None,
                "maven-metadata.xml",
                None,
            ),
            (
                "com/maven-metadata.xml.sha512",
                "com",
                None,
                "maven-metadata.xml",
                Some(MavenChecksum::Sha512),
            ),
            (
                "com/app/1.0-SNAPSHOT/maven-metadata.xml.sha256",
                "com/app",
                Some("1.0-SNAPSHOT"),
                "maven-metadata.xml",
                Some(MavenChecksum::Sha256),
            ),
            (
                "com/app/1.0/maven-metadata.xml",
                "com/app/1.0",
                None,
                "maven-metadata.xml",
                None,
            ),
            (
                "com/example/app.core_x/2/a",
                "com/example/app.core_x",
                Some("2"),
                "a",
                None,
            ),
        ] {
            let expected = (
                name.to_owned(),
                version.map(str::to_owned),
                file.to_owned(),
                checksum,
            );
            assert_eq!(parse(path), expected);
        }
        assert!(is_snapshot("1.0-SNAPSHOT") && !is_snapshot("1.0") && !is_snapshot("1.0-SNAPSHOT-2"));
    }

    #[test]
    fn invalid_paths_are_refused() {
        let long = "a".repeat(256);
        for path in [
            "",
            "/",
            "a",
            "app.jar",
            "1.0/app.jar",
            "app/1.0/app.jar",
            "maven-metadata.xml",
            "1.0-SNAPSHOT/maven-metadata.xml",
            "com/app/1.0/",
            "/com/app/1.0/a",
            "com//app/1.0/a",
            "com/app//a",
            "com/../app/1.0/a",
            "com/./app/1.0/a",
            "com/app/../a",
            "com/app/1.0/..",
            "com/app/1..0/a",
            "com/app/.1/a",
            "com/app/1.0/.a",
            "com/app/1.0/.sha1",
            "com/app/1.0/a b",
            "com/app/1.0/a\0",
            "com/app/1.0/a\n",
            "com/app/1.0/a%2fb",
            "com/app/1.0/a\\b",
            "com/app/1.0/é",
            "com/a<b/1.0/a",
            "com/app/1&0/a",
            &format!("com/app/1.0/{long}"),
            &format!("com/app/{long}/a"),
            &format!("com/{long}/1.0/a"),
            &format!("{}com/1.0/a", "abc/".repeat(64)),
        ] {
            assert_eq!(MavenPath::parse(path), Err(InvalidMavenPath), "{path}");
        }
        parse(&format!("{}com/1.0/a", "abc/".repeat(63)));
        // The extension of a checksum does not count.
        parse(&format!("com/app/1.0/{}.sha512", &long[1..]));
    }
}
