//! `man`: writes the manual pages.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::context::CommandResult;

/// Writes a page for each command and subcommand, such as `holdfast-backup.1`, into a directory. Existing pages are replaced.
///
/// # Errors
/// A directory or a file that cannot be written.
pub(super) fn write_pages(command: clap::Command, directory: &Path) -> CommandResult {
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory))
        .map_err(|error| {
            format!(
                "cannot write the manual pages to {}: {error}",
                directory.display()
            )
        })?;
    Ok(ExitCode::SUCCESS)
}
