//! `holdfast doctor`.

use std::process::ExitCode;

use clap::Args;
use domain::operations::doctor::{self as examination, DoctorEvent};
use domain::operations::{git_program, git_sandbox, startup};

use super::checks::print_checks;
use super::context::{CommandResult, CommonOptions, print};
use super::progress::{Progress, TaskState};

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorOptions {
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: CommonOptions,
}

/// Prints each check and one line for each problem; exits with 1 if there are problems.
pub(super) async fn doctor(options: DoctorOptions) -> CommandResult {
    // Without Git, every repository would be reported as damaged.
    let old_git = git_program::check().await?;
    let (settings, backend) = options.common.open().await?;
    let deserted = startup::is_only_node(&settings.data_dir).await?;
    let mut progress = Progress::new();
    let mut report = |event: DoctorEvent| {
        let (text, done, total) = (&progress_text(event), event.done, event.total);
        progress.show(TaskState { text, done, total }, false);
    };
    let found = examination::check(&backend, &settings.data_dir, deserted, &mut report).await;
    progress.finish();
    let found = found?;
    // Git and its sandbox depend on the machine, so they are not problems of the instance.
    let sandbox = git_sandbox::warning().await.map(str::to_owned);
    let warnings: Vec<String> = old_git.into_iter().chain(sandbox).collect();
    let problems = print_checks(&found.checks, &warnings, options.json);
    if !options.json {
        print(&format!("Projects: {}. Problems: {problems}.\n", found.projects));
    }
    Ok(match problems {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn progress_text(event: DoctorEvent) -> String {
    let (subject, done) = (event.subject, event.done);
    match event.total {
        Some(total) => format!("Checked {done} of {total} {subject}"),
        None => format!("Checking {subject}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_the_subject_and_the_numbers() {
        let event = |total| DoctorEvent {
            subject: "projects",
            done: 1,
            total,
        };
        assert_eq!(progress_text(event(Some(3))), "Checked 1 of 3 projects");
        assert_eq!(progress_text(event(None)), "Checking projects");
    }
}
