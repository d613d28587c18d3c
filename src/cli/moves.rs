//! `holdfast admin projects move` and `holdfast admin groups move`: transfers, with the rules of the API.

use clap::{Args, Subcommand};
use domain::audit::Actor;
use domain::lifecycle::transfer;

use super::context::{CommandResult, CommonOptions, error_text};
use super::lookup;
use super::report::{Outcome, OutputOptions};

/// A subcommand of `admin projects`.
#[derive(Debug, Subcommand)]
pub(super) enum ProjectsCommand {
    /// Move a project to another namespace
    #[command(after_help = "Example:\n  holdfast admin projects move engines/analytical --to archive")]
    Move(MoveProjectOptions),
}

/// A subcommand of `admin groups`.
#[derive(Debug, Subcommand)]
pub(super) enum GroupsCommand {
    /// Move a group with its projects and subgroups
    #[command(
        after_help = "Examples:\n  holdfast admin groups move engines --to machines\n  holdfast admin groups move \
                      machines/engines --top-level"
    )]
    Move(MoveGroupOptions),
}

/// Options of `admin projects move`.
#[derive(Debug, Args)]
pub(super) struct MoveProjectOptions {
    /// ID or full path of the project
    project: String,
    /// ID or full path of the group or personal namespace to which the project is moved
    #[arg(long, value_name = "NAMESPACE")]
    to: String,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of `admin groups move`.
#[derive(Debug, Args)]
pub(super) struct MoveGroupOptions {
    /// ID or full path of the group
    group: String,
    /// ID or full path of the new parent group
    #[arg(long, value_name = "GROUP", required_unless_present = "top_level")]
    to: Option<String>,
    /// Make the group a top-level group
    #[arg(long, conflicts_with = "to")]
    top_level: bool,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// Runs a subcommand of `admin projects`.
pub(super) async fn run_projects(command: ProjectsCommand) -> CommandResult {
    let ProjectsCommand::Move(options) = command;
    let (_, backend) = options.common.open().await?;
    let administrator = lookup::administrator(&backend).await?;
    let access = lookup::project(&backend, administrator, &options.project).await?;
    let before = format!("{}/{}", access.namespace.full_path, access.project.path);
    let target = lookup::namespace(&backend, &options.to).await?.id.to_string();
    let actor = Actor::command_line();
    let moved = transfer::projects::transfer_to_as(&backend, &actor, access, &target).await;
    let moved = moved.map_err(error_text)?;
    let (id, after) = (
        moved.project.id,
        format!("{}/{}", moved.namespace.full_path, moved.project.path),
    );
    let message = format!("Project {before} (ID {id}) is now {after}.");
    options
        .output
        .print_outcome(&Outcome::new(true, Some(id), message))
}

/// Runs a subcommand of `admin groups`.
pub(super) async fn run_groups(command: GroupsCommand) -> CommandResult {
    let GroupsCommand::Move(options) = command;
    let (_, backend) = options.common.open().await?;
    let administrator = lookup::administrator(&backend).await?;
    let parent_id = match &options.to {
        Some(parent) => {
            let parent = lookup::group(&backend, administrator.clone(), parent).await?;
            Some(parent.group.id)
        }
        None => None,
    };
    let access = lookup::group(&backend, administrator, &options.group).await?;
    let before = access.group.full_path.clone();
    let moved = transfer::groups::transfer_as(&backend, &Actor::command_line(), access, parent_id).await;
    let group = moved.map_err(error_text)?.group;
    let message = format!("Group {before} (ID {}) is now {}.", group.id, group.full_path);
    options
        .output
        .print_outcome(&Outcome::new(true, Some(group.id), message))
}
