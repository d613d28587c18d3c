//! `holdfast admin migrate-database`: move of the instance to a database of the other kind.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use domain::operations::database_move::{self, MoveEvent, MoveReport, MoveRequest, TableProgress};
use domain::operations::instance_identity::DatabaseKind;

use super::context::{CommandResult, CommonOptions, print};
use super::progress::{Progress, TaskState};

/// Maximum length of a database URL, in bytes.
const MAX_URL: u64 = 8_192;

/// Options of `admin migrate-database`.
#[derive(Debug, Args)]
pub(super) struct MigrateDatabaseOptions {
    /// New database, as sqlite://PATH or postgres://...: an empty database, or the target of an interrupted move. A URL with
    /// a password should be in the environment or in a file, because other users can read command lines
    #[arg(
        long,
        env = "HOLDFAST_TARGET_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    to: Option<String>,
    /// File with the URL of the new database in its first line; has priority over the environment
    #[arg(long, value_name = "FILE")]
    to_file: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: CommonOptions,
}

/// Moves the instance, and prints the copied tables.
pub(super) async fn run(arguments: MigrateDatabaseOptions) -> CommandResult {
    let to = match (arguments.to_file, arguments.to) {
        (Some(file), _) => first_line(&file)?,
        (None, Some(url)) => url,
        (None, None) => {
            return Err(
                "set --to, HOLDFAST_TARGET_DATABASE_URL or --to-file to the URL of the new database".into(),
            );
        }
    };
    let settings = arguments.common.read("warn")?.settings()?;
    let request = MoveRequest {
        data_dir: settings.data_dir,
        from: settings.database_url,
        to,
    };
    let mut display = Progress::new();
    let moved =
        database_move::move_database(&request, &mut |event: MoveEvent<'_>| show(&mut display, &event)).await;
    display.finish();
    let report = moved?;
    match arguments.json {
        true => print(&format!("{}\n", serde_json::to_string_pretty(&report)?)),
        false => print(&summary(&report)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a URL from a file. The error does not contain the text.
fn first_line(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut line = String::new();
    let mut reader = BufReader::new(std::io::Read::take(file, MAX_URL));
    reader.read_line(&mut line).map_err(failed)?;
    match line.trim() {
        "" => Err(format!(
            "{}: the first line must be the URL of the new database",
            path.display()
        )),
        url => Ok(url.to_owned()),
    }
}

/// Shows an event of a move: a bar on a terminal, or else one line for each table.
fn show(display: &mut Progress, event: &MoveEvent<'_>) {
    let (step, progress) = match event {
        MoveEvent::Copied(progress) => ("Copied", progress),
        MoveEvent::Verified(progress) => ("Verified", progress),
        MoveEvent::Continued { tables } => {
            return display.line(&format!("Continuing the copy after {tables} tables."));
        }
        MoveEvent::StartedOver { table } => {
            return display.line(&format!(
                "The table {table} has changed since the interrupted copy, so all tables are copied again."
            ));
        }
        MoveEvent::AlreadyCopied => {
            return display.line("The target has all tables. They are compared with the original.");
        }
        MoveEvent::OriginalNotMarked { cause } => {
            return display.line(&format!(
                "warning: the instance was moved, but the original database could not be marked: {cause}"
            ));
        }
    };
    let text = &progress_text(step, progress);
    let (done, total) = (progress.all_rows, Some(progress.total));
    display.show(TaskState { text, done, total }, progress.is_complete);
}

fn progress_text(step: &str, progress: &TableProgress<'_>) -> String {
    format!("{step} {}: {} rows", progress.table, progress.rows)
}

/// Returns a table of the tables, and the next steps.
fn summary(report: &MoveReport) -> String {
    let width = report
        .tables
        .iter()
        .map(|table| table.name.len())
        .max()
        .unwrap_or_default();
    let mut text = format!("{:width$}  {:>12}  CHECKSUM\n", "TABLE", "ROWS");
    for table in &report.tables {
        let checksum = table.checksum.get(..16).unwrap_or_default();
        text.push_str(&format!(
            "{:width$}  {:>12}  {checksum}\n",
            table.name, table.rows
        ));
    }
    let setting = match report.to {
        DatabaseKind::Sqlite => {
            "the URL of the SQLite file, or remove the setting if the file is holdfast.db in the data directory"
        }
        DatabaseKind::Postgresql => "the URL of the PostgreSQL database",
    };
    text.push_str(&format!(
        "Moved the instance {} from {} to {}: {} tables with {} rows in {:.1} seconds.\n\
         Set database_url in holdfast.toml, HOLDFAST_DATABASE_URL or --database-url to {setting}, and start the server.\n\
         The {} database is unchanged, except for a mark: servers do not start on it any more.\n",
        report.instance_id,
        report.from,
        report.to,
        report.tables.len(),
        report.rows,
        report.seconds,
        report.from,
    ));
    text
}
