//! Version of the `git` program.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::GIT;

/// Time limit for printing the version.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Version of the `git` program: the first two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramVersion(pub u32, pub u32);

impl ProgramVersion {
    /// Oldest version with which all operations work: `git merge-tree` merges trees without commits since 2.45.
    pub const MINIMUM: Self = Self(2, 45);

    /// Parses the output of `git version`, such as `git version 2.39.5 (Apple Git-154)`.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix("git version ")?.split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?;
        let end = minor
            .find(|char: char| !char.is_ascii_digit())
            .unwrap_or(minor.len());
        Some(Self(major, minor.get(..end)?.parse().ok()?))
    }
}

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Reason why the version is unknown.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// No directory of the search path contains the program.
    #[error(
        "the program `git` is not in a directory of PATH; install Git {} or newer",
        ProgramVersion::MINIMUM
    )]
    Missing,
    /// The program cannot be started.
    #[error("the program `{path}` cannot be started: {0}", path = GIT.display())]
    Start(std::io::Error),
    /// The program does not print a version.
    #[error("the program `{}` does not print the version of Git", GIT.display())]
    Output,
}

/// Returns the version of the `git` program.
///
/// # Errors
/// All variants of [`VersionError`].
pub async fn program_version() -> Result<ProgramVersion, VersionError> {
    if !GIT.is_absolute() {
        return Err(VersionError::Missing);
    }
    let mut command = Command::new(&*GIT);
    command.arg("version").env_clear().env("LC_ALL", "C");
    command.stdin(Stdio::null()).kill_on_drop(true);
    let Ok(output) = tokio::time::timeout(TIME_LIMIT, command.output()).await else {
        return Err(VersionError::Output);
    };
    let output = output.map_err(VersionError::Start)?;
    ProgramVersion::parse(&String::from_utf8_lossy(&output.stdout)).ok_or(VersionError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_parsed_and_compared_by_number() {
        for (text, expected) in [
            ("git version 2.39.5\n", Some(ProgramVersion(2, 39))),
            ("git version 2.45.0-rc1", Some(ProgramVersion(2, 45))),
            ("git version 2.50 (Apple Git-154)", Some(ProgramVersion(2, 50))),
            ("git version 3.0.1.windows.1", Some(ProgramVersion(3, 0))),
            ("git version two", None),
            ("version 2.39.5", None),
            ("", None),
        ] {
            assert_eq!(ProgramVersion::parse(text), expected, "{text}");
        }
        assert!(ProgramVersion(2, 9) < ProgramVersion::MINIMUM);
        assert!(ProgramVersion(2, 45) >= ProgramVersion::MINIMUM);
        assert!(ProgramVersion(3, 0) > ProgramVersion::MINIMUM);
    }
}
