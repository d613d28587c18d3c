//! `holdfast admin`: administration without the API.

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;

use chrono::NaiveDate;
use clap::{Subcommand, ValueEnum};
use domain::accounts::users as accounts;
use domain::accounts::users::NewUser;
use domain::audit::Actor;
use domain::identity::access_tokens::{self, NewToken};
use domain::identity::two_factor::enrollment;
use domain::operations::startup;
use domain::secrets::Token;
use domain::spaces::{members, repository_import};
use storage::entities::access_tokens::TokenKind;
use storage::entities::{AccessLevel, Visibility, users};

use super::context::{CommandResult, CommonOptions, error_text, print};
use super::database_move::{self, MigrateDatabaseOptions};
use super::group_domains::{self, GroupDomainCommand};
use super::jobs::{self, JobsCommand};
use super::key_rotation::{self, RotateKeyOptions};
use super::moves::{self, GroupsCommand, ProjectsCommand};
use super::progress::{Progress, TaskState};
use super::tokens::{self, TokensCommand};
use super::users::{self as user_commands, UsersCommand};

/// A subcommand of `admin`.
#[derive(Debug, Subcommand)]
pub(super) enum AdminCommand {
    /// List, show, block, unblock, promote and demote users, and reset their passwords
    Users {
        #[command(subcommand)]
        command: UsersCommand,
    },
    /// List and revoke access tokens
    Tokens {
        #[command(subcommand)]
        command: TokensCommand,
    },
    /// List, retry and discard background jobs that failed permanently
    Jobs {
        #[command(subcommand)]
        command: JobsCommand,
    },
    /// Move projects
    Projects {
        #[command(subcommand)]
        command: ProjectsCommand,
    },
    /// Move groups
    Groups {
        #[command(subcommand)]
        command: GroupsCommand,
    },
    /// Create a user
    #[command(after_help = "Example:\n  holdfast admin create-user ann --email ann@example.com")]
    CreateUser {
        /// User name
        username: String,
        /// Email address
        #[arg(long)]
        email: String,
        /// Display name [default: the user name]
        #[arg(long)]
        name: Option<String>,
        /// Create the user as an administrator
        #[arg(long)]
        admin: bool,
        /// Read the password from the first line of standard input [default: a generated password,
        /// which is printed]
        #[arg(long)]
        password_stdin: bool,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Create a personal access token and print it
    #[command(
        after_help = "Example:\n  holdfast admin create-token ann --scopes read_api --expires-at 2027-01-31"
    )]
    CreateToken {
        /// Name of the user who owns the token
        username: String,
        /// Name of the token
        #[arg(long, default_value = "command line")]
        name: String,
        /// Scopes of the token
        #[arg(long, value_delimiter = ',', default_value = "api")]
        scopes: Vec<String>,
        /// Last day on which the token is valid, as YYYY-MM-DD
        #[arg(long)]
        expires_at: Option<NaiveDate>,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Disable the two-factor authentication of a user who lost the app and the recovery codes, and end the sessions
    /// of the user
    #[command(after_help = "Example:\n  holdfast admin disable-two-factor ann")]
    DisableTwoFactor {
        /// Name of the user
        username: String,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Import branches and tags of a local repository into a project; create the project if it does not exist
    #[command(after_help = "Example:\n  holdfast admin import-repo --project ann/tools /srv/git/tools.git")]
    ImportRepo {
        /// Path of the project, as NAMESPACE/NAME; the namespace must exist
        #[arg(long)]
        project: String,
        /// Visibility of a created project
        #[arg(long, value_enum, default_value_t = VisibilityArgument::Private)]
        visibility: VisibilityArgument,
        /// Name of the user who is recorded as author [default: the owner of a personal namespace, or else
        /// the first administrator]
        #[arg(long)]
        author: Option<String>,
        /// Path of the repository
        path: PathBuf,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Synchronize the members of a group with an LDAP directory; standard input contains a line `USERNAME ROLE`
    /// for each member
    #[command(after_help = "Example:\n  holdfast admin sync-members --group engines < members")]
    SyncMembers {
        /// Path of the group
        #[arg(long)]
        group: String,
        /// Accept an empty list, which removes all members that were synchronized with the directory
        #[arg(long)]
        allow_empty: bool,
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Replace the encryption key and encrypt all secrets again, or continue an interrupted rotation; servers can
    /// run during the rotation
    #[command(after_help = "Example:\n  holdfast admin rotate-key --end-sessions")]
    RotateKey(RotateKeyOptions),
    /// Move the instance from SQLite to PostgreSQL or back, or continue an interrupted move; all servers must be stopped
    MigrateDatabase(MigrateDatabaseOptions),
    /// Manage the email domains in which the identity provider of a group confirms addresses
    GroupDomain {
        #[command(subcommand)]
        command: GroupDomainCommand,
    },
}

/// [`Visibility`] as a command-line value.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum VisibilityArgument {
    Private,
    Internal,
    Public,
}

impl From<VisibilityArgument> for Visibility {
    fn from(exposure: VisibilityArgument) -> Self {
        match exposure {
            VisibilityArgument::Private => Self::Private,
            VisibilityArgument::Internal => Self::Internal,
            VisibilityArgument::Public => Self::Public,
        }
    }
}

/// Runs a subcommand.
pub(super) async fn run(command: AdminCommand) -> CommandResult {
    match command {
        AdminCommand::Users { command } => user_commands::run(command).await,
        AdminCommand::Tokens { command } => tokens::run(command).await,
        AdminCommand::Jobs { command } => jobs::run(command).await,
        AdminCommand::Projects { command } => moves::run_projects(command).await,
        AdminCommand::Groups { command } => moves::run_groups(command).await,
        AdminCommand::CreateUser {
            username,
            email,
            name,
            admin,
            password_stdin,
            common,
        } => {
            let password = if password_stdin { Some(first_line()?) } else { None };
            let new = NewUser {
                name: name.unwrap_or_else(|| username.clone()),
                username,
                email,
                password,
                admin,
            };
            create_user(common, new).await
        }
        AdminCommand::CreateToken {
            username,
            name,
            scopes,
            expires_at,
            common,
        } => {
            let (_, backend) = common.open().await?;
            let user = users::by_username(backend.database.read(), &username).await?;
            let user = user.ok_or_else(|| format!("user {username} does not exist"))?;
            let new = NewToken {
                user_id: user.id,
                name,
                kind: TokenKind::Personal,
                scopes,
                expires_at,
                created_by_id: None,
                secret: None,
            };
            let (_, token) = access_tokens::create(&backend, &Actor::command_line(), new)
                .await
                .map_err(error_text)?;
            print(&format!("{token}\n"));
            Ok(ExitCode::SUCCESS)
        }
        AdminCommand::DisableTwoFactor { username, common } => disable_two_factor(common, &username).await,
        AdminCommand::ImportRepo {
            project,
            visibility,
            author,
            path,
            common,
        } => {
            let (settings, backend) = common.open().await?;
            let _presence = startup::register_node(&backend, &settings.data_dir).await?;
            let mut progress = Progress::new();
            let (text, done, total) = (&format!("Importing {}", path.display()), 0, None);
            progress.show(TaskState { text, done, total }, false);
            let imported =
                repository_import::import(&backend, &project, visibility.into(), path, author.as_deref())
                    .await;
            progress.finish();
            let imported = imported.map_err(error_text)?;
            let branch = imported.default_branch.as_deref().unwrap_or("none");
            print(&format!(
                "Project {project} has id {} and the default branch {branch}.\n",
                imported.id
            ));
            Ok(ExitCode::SUCCESS)
        }
        AdminCommand::SyncMembers {
            group,
            allow_empty,
            common,
        } => sync_members(common, &group, allow_empty).await,
        AdminCommand::RotateKey(options) => key_rotation::run(options).await,
        AdminCommand::MigrateDatabase(options) => database_move::run(options).await,
        AdminCommand::GroupDomain { command } => group_domains::run(command).await,
    }
}

async fn disable_two_factor(common: CommonOptions, username: &str) -> CommandResult {
    let (_, backend) = common.open().await?;
    let user = users::by_username(backend.database.read(), username).await?;
    let user = user.ok_or_else(|| format!("user {username} does not exist"))?;
    enrollment::reset(&backend, &Actor::command_line(), user.id)
        .await
        .map_err(error_text)?;
    print(&format!(
        "Two-factor authentication of {} is disabled.\n",
        user.username
    ));
    Ok(ExitCode::SUCCESS)
}

async fn sync_members(common: CommonOptions, group: &str, allow_empty: bool) -> CommandResult {
    let text = std::io::read_to_string(std::io::stdin().lock())?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let listed = lines.map(listed).collect::<Result<Vec<_>, _>>()?;
    if listed.is_empty() && !allow_empty {
        return Err("the list of members is empty; pass --allow-empty to remove all members".into());
    }
    let (_, backend) = common.open().await?;
    let done = members::synchronize(&backend, group, &listed)
        .await
        .map_err(error_text)?;
    for (username, reason) in &done.passed_over {
        print(&format!("{username} {reason}.\n"));
    }
    print(&format!(
        "{} joined, {} changed, {} left.\n",
        done.joined, done.changed, done.left
    ));
    Ok(ExitCode::SUCCESS)
}

/// Parses a user name and a role, given as a word or a number.
fn listed(line: &str) -> Result<(String, AccessLevel), String> {
    let mut words = line.split_whitespace();
    let (Some(username), Some(role), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("expected USERNAME ROLE, found: {line}"));
    };
    let level = AccessLevel::from_name(role).or_else(|| AccessLevel::from_number(role.parse().ok()?));
    let level = level.ok_or_else(|| format!("unknown group role {role}: {line}"))?;
    Ok((username.to_owned(), level))
}

async fn create_user(common: CommonOptions, mut new: NewUser) -> CommandResult {
    let (_, backend) = common.open().await?;
    let is_generated = new.password.is_none();
    let password = new
        .password
        .get_or_insert_with(|| Token::generate("").expose().to_owned())
        .clone();
    let user = accounts::create(&backend, &Actor::command_line(), new)
        .await
        .map_err(error_text)?;
    print(&format!("User {} has id {}.\n", user.username, user.id));
    if is_generated {
        print(&format!("Password (shown once): {password}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn first_line() -> std::io::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
