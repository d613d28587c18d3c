//! `holdfast backup` and `holdfast restore`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use domain::operations::backups::{
    self, BackupManifest, BackupOptions, BackupSummary, RestoreOptions, VerifyOptions, read_passphrase,
};
use domain::secrets::Secret;
use serde_json::json;

use super::checks::print_checks;
use super::context::{CommandResult, CommonOptions, print};
use super::progress::BackupProgress;

/// Options of `backup`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct BackupArguments {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// Directory of the backups: a new directory, or one with earlier backups, of which only changes are copied
    #[arg(required = true)]
    directory: Option<PathBuf>,
    /// Encrypt the backups with the passphrase in this file
    #[arg(long, value_name = "FILE", env = "HOLDFAST_BACKUP_PASSPHRASE_FILE")]
    passphrase_file: Option<PathBuf>,
    /// Exclude the objects of the object storage: uploads, avatars, archives and container images
    #[arg(long)]
    without_objects: bool,
    /// Number of backups to retain in the directory; older ones are removed [default: all]
    #[arg(long, value_name = "NUMBER")]
    keep: Option<NonZeroUsize>,
    #[command(flatten)]
    common: CommonOptions,
}

/// A subcommand of `backup`.
#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Read backups completely, and check digests, repositories, databases and container images; requires no instance
    Verify {
        #[command(flatten)]
        source: BackupSource,
        /// Print the checks as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the complete backups of a directory, oldest first
    List {
        #[command(flatten)]
        source: BackupSource,
        /// Print the backups as JSON
        #[arg(long)]
        json: bool,
    },
}

/// A directory of backups that is read.
#[derive(Debug, Args)]
struct BackupSource {
    /// Directory of the backups
    directory: PathBuf,
    /// Name of the backup [default: all for `verify`, the newest for `restore`]
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,
    /// Decrypt the backups with the passphrase in this file
    #[arg(long, value_name = "FILE", env = "HOLDFAST_BACKUP_PASSPHRASE_FILE")]
    passphrase_file: Option<PathBuf>,
}

impl BackupSource {
    fn passphrase(&self) -> Result<Option<Secret>, domain::kernel::error::Error> {
        self.passphrase_file.as_deref().map(read_passphrase).transpose()
    }
}

/// Options of `restore`.
#[derive(Debug, Args)]
pub(super) struct RestoreArguments {
    #[command(flatten)]
    source: BackupSource,
    /// Name of an earlier backup with repositories and objects that the backup lacks, because they were deleted in
    /// between
    #[arg(long, value_name = "NAME")]
    fill_from: Option<String>,
    /// Restore only the data directory, for a PostgreSQL database that was already restored to an earlier time
    #[arg(long)]
    keep_database: bool,
    /// Replace the objects of an object storage that is not empty, and delete objects that the backup lacks
    #[arg(long)]
    replace_objects: bool,
    #[command(flatten)]
    common: CommonOptions,
}

/// Writes, verifies or lists backups.
pub(super) async fn backup(arguments: BackupArguments) -> CommandResult {
    match arguments.command {
        Some(BackupCommand::Verify { source, json }) => return verify(source, json).await,
        Some(BackupCommand::List { source, json }) => return list(source, json).await,
        None => {}
    }
    let directory = arguments.directory.unwrap_or_default();
    let passphrase = arguments
        .passphrase_file
        .as_deref()
        .map(read_passphrase)
        .transpose()?;
    let (settings, backend) = arguments.common.open().await?;
    let options = BackupOptions {
        directory: directory.clone(),
        passphrase,
        include_objects: !arguments.without_objects,
        keep: arguments.keep,
    };
    let mut progress = BackupProgress::new("Copied");
    let mut report = |event| progress.report(event);
    let summary = backups::backup(&backend, &settings.data_dir, options, &mut report).await?;
    progress.finish();
    print(&backup_text(&summary, &directory.display().to_string()));
    Ok(
        match summary.manifest.problems.is_empty() && summary.retention_failure.is_none() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    )
}

fn backup_text(summary: &BackupSummary, directory: &str) -> String {
    let manifest = &summary.manifest;
    let mut text = format!(
        "Saved {}{} to {directory}\nBackup: {} ({}, {})\n",
        repositories(manifest.repository_count() as u64),
        manifest
            .object_count()
            .map(|count| format!(" and {}", objects(count)))
            .unwrap_or_default(),
        manifest.id,
        manifest.database_kind(),
        if summary.is_encrypted {
            "encrypted"
        } else {
            "not encrypted"
        },
    );
    if let Some(earlier) = &summary.earlier {
        text.push_str(&format!(
            "Changed since {earlier}: {}, {}\n",
            repositories(summary.changed_repositories),
            objects(summary.changed_objects)
        ));
    }
    text.push_str(&exclusion(manifest));
    if !summary.removed.is_empty() {
        let names: Vec<&str> = summary.removed.iter().map(backups::BackupId::as_str).collect();
        let count = count(names.len() as u64, "old backup", "old backups");
        text.push_str(&format!("Removed {count}: {}\n", names.join(", ")));
    }
    for problem in &manifest.problems {
        text.push_str(&format!("{problem}\n"));
    }
    if !manifest.problems.is_empty() {
        let count = count(manifest.problems.len() as u64, "problem", "problems");
        text.push_str(&format!(
            "The instance has {count}; the backup contains everything else.\n"
        ));
    }
    if let Some(failure) = &summary.retention_failure {
        text.push_str(&format!(
            "Failed to delete old backups and files that no backup refers to: {failure}\n"
        ));
    }
    text
}

fn exclusion(manifest: &BackupManifest) -> String {
    match manifest.excluded_objects() {
        Some(kind) => format!(
            "Excluded: the objects of the object storage ({kind}): uploads, avatars, archives and container images\n"
        ),
        None => String::new(),
    }
}

async fn verify(source: BackupSource, as_json: bool) -> CommandResult {
    let passphrase = source.passphrase()?;
    let directory = source.directory.display().to_string();
    let options = VerifyOptions {
        directory: source.directory,
        passphrase,
        backup: source.backup,
    };
    let mut progress = BackupProgress::new("Checked");
    let mut report = |event| progress.report(event);
    let summary = backups::verify(options, &mut report).await?;
    progress.finish();
    let mut warnings: Vec<String> = summary
        .without_objects
        .iter()
        .map(|id| {
            format!("the backup {id} excludes the objects of the object storage, which were not checked")
        })
        .collect();
    if summary.interrupted > 0 {
        let files = count(summary.interrupted, "file", "files");
        warnings.push(format!(
            "an interrupted backup left {files}, which the next backup deletes"
        ));
    }
    let problems = print_checks(&summary.checks, &warnings, as_json);
    if !as_json {
        let backups = count(summary.backups.len() as u64, "backup", "backups");
        let problems = count(problems as u64, "problem", "problems");
        print(&format!("Verified {backups} in {directory}: {problems}\n"));
    }
    Ok(match problems {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

async fn list(source: BackupSource, as_json: bool) -> CommandResult {
    let passphrase = source.passphrase()?;
    let mut found = backups::list(source.directory, passphrase).await?;
    found.retain(|(id, _)| source.backup.as_deref().is_none_or(|name| name == id.as_str()));
    if as_json {
        let describe = |(id, manifest): &(backups::BackupId, Result<BackupManifest, String>)| match manifest {
            Ok(manifest) => json!({
                "backup": id,
                "version": manifest.version,
                "started_at": manifest.started_at,
                "database": manifest.database_kind(),
                "repositories": manifest.repository_count(),
                "objects": manifest.object_count(),
                "problems": manifest.problems,
            }),
            Err(error) => json!({ "backup": id, "error": error }),
        };
        let document: Vec<_> = found.iter().map(describe).collect();
        print(&format!("{:#}\n", json!(document)));
    } else {
        print(&format!(
            "{:18}  {:10}  {:>12}  {:>9}\n",
            "Backup", "Database", "Repositories", "Objects"
        ));
        for (id, manifest) in &found {
            match manifest {
                Ok(manifest) => {
                    let objects = manifest
                        .object_count()
                        .map_or("excluded".to_owned(), |count| count.to_string());
                    let database = manifest.database_kind().to_string();
                    let repositories = manifest.repository_count();
                    print(&format!(
                        "{:18}  {database:10}  {repositories:>12}  {objects:>9}\n",
                        id.as_str()
                    ));
                }
                Err(error) => print(&format!("{:18}  damaged: {error}\n", id.as_str())),
            }
        }
    }
    Ok(match found.iter().all(|(_, manifest)| manifest.is_ok()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Restores a backup.
pub(super) async fn restore(arguments: RestoreArguments) -> CommandResult {
    let passphrase = arguments.source.passphrase()?;
    let settings = arguments.common.read("warn")?.settings()?;
    let options = RestoreOptions {
        directory: arguments.source.directory,
        passphrase,
        backup: arguments.source.backup,
        fill_from: arguments.fill_from,
        data_dir: settings.data_dir.clone(),
        database_url: settings.database_url,
        object_store_url: settings.object_store_url,
        keep_database: arguments.keep_database,
        replace_objects: arguments.replace_objects,
    };
    let kept = options.keep_database;
    let mut progress = BackupProgress::new("Restored");
    let mut report = |event| progress.report(event);
    let summary = backups::restore(options, &mut report).await?;
    progress.finish();
    let mut text = format!(
        "Restored {} of {} into {}\n",
        match summary.manifest.object_count() {
            Some(_) => format!(
                "{} and {}",
                repositories(summary.repositories),
                objects(summary.objects)
            ),
            None => repositories(summary.repositories),
        },
        summary.manifest.created_at.to_rfc3339(),
        settings.data_dir.display()
    );
    if summary.filled_repositories + summary.filled_objects > 0 {
        text.push_str(&format!(
            "From the earlier backup: {}, {}\n",
            repositories(summary.filled_repositories),
            objects(summary.filled_objects)
        ));
    }
    text.push_str(&exclusion(&summary.manifest));
    if kept {
        text.push_str("The database was kept. Run `holdfast doctor`, which lists what it refers to and what is missing.\n");
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

fn repositories(number: u64) -> String {
    count(number, "repository", "repositories")
}

fn objects(number: u64) -> String {
    count(number, "object", "objects")
}

/// A number with its noun.
fn count(number: u64, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {several}"),
    }
}
