//! `holdfast admin jobs`: background jobs that failed permanently.

use std::error::Error as StdError;

use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Subcommand};
use domain::audit::Actor;
use domain::kernel::Backend;
use domain::kernel::error::{Error, Result};
use domain::operations::failed_jobs;
use holdfast::worker;
use serde::Serialize;
use storage::entities::jobs::Model;
use storage::entities::now;

use super::context::{CommandResult, CommonOptions, error_text};
use super::report::{BATCH, Outcome, OutputOptions, Row, time_text};

/// A subcommand of `admin jobs`.
#[derive(Debug, Subcommand)]
pub(super) enum JobsCommand {
    /// List the jobs that failed permanently in the order of their IDs
    #[command(after_help = "Example:\n  holdfast admin jobs list --kind deliver_webhook")]
    List(ListOptions),
    /// Queue failed jobs again with all their attempts
    #[command(
        after_help = "Examples:\n  holdfast admin jobs retry 7\n  holdfast admin jobs retry --all --kind \
                      deliver_webhook"
    )]
    Retry(ChangeOptions),
    /// Delete failed jobs without running them
    #[command(after_help = "Example:\n  holdfast admin jobs discard 7")]
    Discard(ChangeOptions),
}

/// Options of `admin jobs list`.
#[derive(Debug, Args)]
pub(super) struct ListOptions {
    /// List only jobs of this kind
    #[arg(long)]
    kind: Option<String>,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of the commands that change failed jobs.
#[derive(Debug, Args)]
pub(super) struct ChangeOptions {
    /// IDs of the jobs
    #[arg(required_unless_present = "all", value_name = "ID")]
    ids: Vec<i64>,
    /// Change all failed jobs
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// With --all, change only jobs of this kind
    #[arg(long, requires = "all", conflicts_with = "ids")]
    kind: Option<String>,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// A failed job as it is printed. `docs/ADMIN.md` documents the fields.
#[derive(Debug, Serialize)]
struct JobRow {
    id: i64,
    kind: String,
    attempts: i32,
    max_attempts: i32,
    created_at: DateTime<Utc>,
    failed_at: Option<DateTime<Utc>>,
    age_seconds: i64,
    last_error: Option<String>,
}

impl JobRow {
    fn new(job: Model, at: DateTime<Utc>) -> Self {
        Self {
            id: job.id,
            kind: job.kind,
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            created_at: job.created_at,
            failed_at: job.dead_at,
            age_seconds: (at - job.created_at).num_seconds().max(0),
            last_error: job.last_error,
        }
    }
}

impl Row for JobRow {
    const COLUMNS: &'static [&'static str] = &["ID", "KIND", "AGE", "FAILED", "ATTEMPTS", "LAST ERROR"];

    fn id(&self) -> i64 {
        self.id
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.kind.clone(),
            age_text(TimeDelta::seconds(self.age_seconds)),
            self.failed_at.map_or_else(String::new, time_text),
            format!("{}/{}", self.attempts, self.max_attempts),
            self.last_error.clone().unwrap_or_default(),
        ]
    }
}

/// Returns a duration in its largest unit.
fn age_text(age: TimeDelta) -> String {
    match (age.num_days(), age.num_hours(), age.num_minutes()) {
        (days @ 1.., _, _) => format!("{days}d"),
        (_, hours @ 1.., _) => format!("{hours}h"),
        (_, _, minutes @ 1..) => format!("{minutes}m"),
        _ => format!("{}s", age.num_seconds()),
    }
}

/// Runs a subcommand.
pub(super) async fn run(command: JobsCommand) -> CommandResult {
    match command {
        JobsCommand::List(options) => list(options).await,
        JobsCommand::Retry(options) => {
            let retry = async |backend: &Backend, id| {
                let registry = worker::registry(backend);
                failed_jobs::retry(backend, &Actor::command_line(), &registry, id).await
            };
            change(options, retry, "queued again").await
        }
        JobsCommand::Discard(options) => {
            let discard =
                async |backend: &Backend, id| failed_jobs::discard(backend, &Actor::command_line(), id).await;
            change(options, discard, "discarded").await
        }
    }
}

async fn list(options: ListOptions) -> CommandResult {
    let (_, backend) = options.common.open().await?;
    let at = now();
    let next = async |after| {
        let jobs = failed_jobs::list_after(&backend, options.kind.as_deref(), after, BATCH).await;
        let jobs = jobs.map_err(error_text)?;
        let rows = jobs.into_iter().map(|job| JobRow::new(job, at));
        Ok::<Vec<_>, Box<dyn StdError>>(rows.collect())
    };
    options.output.print_list(next).await
}

/// Changes each job in a transaction of its own: an interrupted command can be repeated.
async fn change(
    options: ChangeOptions,
    run: impl AsyncFn(&Backend, i64) -> Result<Model>,
    result: &str,
) -> CommandResult {
    let (_, backend) = options.common.open().await?;
    let outcome = if options.all {
        let count = change_all(&backend, options.kind.as_deref(), run).await?;
        let jobs = if count == 1 { "job was" } else { "jobs were" };
        Outcome::new(count > 0, None, format!("{count} failed {jobs} {result}."))
    } else {
        let mut sentences = Vec::with_capacity(options.ids.len());
        for id in &options.ids {
            let job = run(&backend, *id).await.map_err(|error| match error {
                Error::NotFound(_) => format!(
                    "{}job {id} is not a failed job; list the failed jobs with: holdfast admin jobs list",
                    done_before(&sentences)
                ),
                other => format!("{}job {id}: {}", done_before(&sentences), error_text(other)),
            })?;
            sentences.push(format!("Job {id} ({}) was {result}.", job.kind));
        }
        let id = match options.ids[..] {
            [id] => Some(id),
            _ => None,
        };
        Outcome::new(true, id, sentences.join(" "))
    };
    options.output.print_outcome(&outcome)
}

/// Returns the changes before a failure, as the start of the error.
fn done_before(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("{sentence} ")).collect()
}

/// Changes all jobs that had failed when the command started, and returns their number.
async fn change_all(
    backend: &Backend,
    kind: Option<&str>,
    run: impl AsyncFn(&Backend, i64) -> Result<Model>,
) -> std::result::Result<u64, Box<dyn StdError>> {
    let (started, mut after, mut count) = (now(), 0, 0);
    loop {
        let batch = failed_jobs::list_after(backend, kind, after, BATCH).await;
        let batch = batch.map_err(error_text)?;
        let Some(last) = batch.last() else {
            return Ok(count);
        };
        after = last.id;
        // A job that was queued again and failed at once has a new ID.
        for job in batch
            .iter()
            .filter(|job| job.dead_at.is_none_or(|at| at <= started))
        {
            match run(backend, job.id).await {
                Ok(_) => count += 1,
                // Another command was faster.
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(format!("job {}: {}", job.id, error_text(error)).into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_has_one_unit() {
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (60, "1m"), (7_199, "1h"), (172_800, "2d")] {
            assert_eq!(age_text(TimeDelta::seconds(seconds)), expected);
        }
    }
}
