//! `holdfast doctor`, `backup` and `restore`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use domain::operations::{backups, doctor as examination, git_sandbox, startup};
use domain::registry::garbage_collection;
use holdfast::server;

use super::context::{CommandResult, CommonOptions, print};

/// Options of `backup` and `restore`.
#[derive(Debug, Args)]
pub(super) struct BackupOptions {
    /// Directory of the backup
    directory: PathBuf,
    #[command(flatten)]
    common: CommonOptions,
}

/// Prints one line for each problem; exits with 1 if there are any.
pub(super) async fn doctor(common: CommonOptions) -> CommandResult {
    let (settings, backend) = common.open().await?;
    let deserted = startup::is_only_node(&settings.data_dir).await?;
    let findings = examination::check(&backend, &settings.data_dir, deserted).await?;
    for problem in &findings.problems {
        print(&format!("{problem}\n"));
    }
    // The sandbox depends on the kernel, so its absence is not a problem of the instance.
    if let Some(warning) = git_sandbox::warning().await {
        print(&format!("warning: {warning}\n"));
    }
    let (projects, problems) = (findings.projects, findings.problems.len());
    print(&format!("Projects: {projects}. Problems: {problems}.\n"));
    Ok(if problems == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes a backup.
pub(super) async fn backup(copy: BackupOptions) -> CommandResult {
    let (settings, backend) = copy.common.open().await?;
    let backup = backups::backup(&backend, &settings.data_dir, &copy.directory).await?;
    print(&format!(
        "Saved {} to {}\n",
        repositories(backup.repositories),
        copy.directory.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Restores a backup.
pub(super) async fn restore(copy: BackupOptions) -> CommandResult {
    let settings = copy.common.read("warn")?.settings()?;
    let backup = backups::restore(
        &copy.directory,
        &settings.data_dir,
        &settings.database_url,
        settings.object_store_url.as_deref(),
    )
    .await?;
    let base_url = server::public_url(&settings, settings.listen);
    let backend = server::open(&settings, None, base_url).await?;
    garbage_collection::reset_after_restore(&backend).await?;
    print(&format!(
        "Restored {} of {} into {}\n",
        repositories(backup.repositories),
        backup.created_at.to_rfc3339(),
        settings.data_dir.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// A number of repositories in words.
fn repositories(count: usize) -> String {
    match count {
        1 => "1 repository".to_owned(),
        count => format!("{count} repositories"),
    }
}
