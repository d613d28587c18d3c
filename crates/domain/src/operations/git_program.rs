//! Check of the `git` program.

use git::{ProgramVersion, VersionError, program_version};

/// Checks that the `git` program can be started. Returns a warning if it is too old for some operations.
///
/// # Errors
/// Returns an error if the program is missing or cannot be started; no repository can be used then.
pub async fn check() -> Result<Option<String>, VersionError> {
    Ok(warning(program_version().await?))
}

fn warning(version: ProgramVersion) -> Option<String> {
    (version < ProgramVersion::MINIMUM).then(|| {
        format!(
            "Git {version} is too old: merges, rebases, cherry-picks and reverts fail; install Git {} or newer",
            ProgramVersion::MINIMUM
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_versions_have_a_warning() {
        let text = warning(ProgramVersion(2, 39)).unwrap_or_default();
        assert!(
            text.starts_with("Git 2.39 is too old") && text.ends_with("install Git 2.45 or newer"),
            "{text}"
        );
        assert_eq!(warning(ProgramVersion::MINIMUM), None);
    }
}
