//! `holdfast admin users`: user accounts.

use std::error::Error;

use chrono::{DateTime, NaiveDate, Utc};
use clap::{Args, Subcommand, ValueEnum};
use domain::accounts::users::listing::{self, UserFilter};
use domain::accounts::users::{self as accounts, AdminAttributes, PasswordSource, UserUpdate};
use domain::audit::Actor;
use domain::kernel::Backend;
use serde::Serialize;
use storage::entities::users::{self, UserState};

use super::context::{CommandResult, CommonOptions, error_text};
use super::lookup;
use super::passwords::PasswordOptions;
use super::report::{BATCH, Outcome, OutputOptions, Row, time_text};

/// A subcommand of `admin users`.
#[derive(Debug, Subcommand)]
pub(super) enum UsersCommand {
    /// List users in the order of their IDs
    #[command(after_help = "Example:\n  holdfast admin users list --state blocked --json")]
    List(ListOptions),
    /// Show a user
    #[command(after_help = "Example:\n  holdfast admin users show ann")]
    Show(UserOptions),
    /// Block a user and end the sessions of the user
    #[command(after_help = "Example:\n  holdfast admin users block ann")]
    Block(UserOptions),
    /// Unblock a user
    #[command(after_help = "Example:\n  holdfast admin users unblock ann")]
    Unblock(UserOptions),
    /// Make a user an administrator
    #[command(after_help = "Example:\n  holdfast admin users promote ann")]
    Promote(UserOptions),
    /// Make an administrator an ordinary user
    #[command(after_help = "Example:\n  holdfast admin users demote ann")]
    Demote(UserOptions),
    /// Replace the password of a user and end the sessions of the user, who must change the password at the next
    /// sign-in
    #[command(
        after_help = "Example:\n  holdfast admin users reset-password ann --password-file new-password"
    )]
    ResetPassword(ResetPasswordOptions),
}

/// Options of `admin users list`.
#[derive(Debug, Args)]
pub(super) struct ListOptions {
    /// List only users whose username or name contains this text, or whose email address equals it
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// List only users in this state
    #[arg(long, value_enum)]
    state: Option<StateArgument>,
    /// List only administrators
    #[arg(long)]
    admin: bool,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// State of listed users.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateArgument {
    /// Users who can sign in
    Active,
    /// Users blocked by an administrator or by the LDAP directory
    Blocked,
    /// Users who become active when they sign in
    Deactivated,
}

/// A user.
#[derive(Debug, Args)]
pub(super) struct UserOptions {
    /// ID or username of the user
    user: String,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of `admin users reset-password`.
#[derive(Debug, Args)]
pub(super) struct ResetPasswordOptions {
    /// ID or username of the user
    user: String,
    #[command(flatten)]
    password: PasswordOptions,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// A user as it is printed. `docs/ADMIN.md` documents the fields.
#[derive(Debug, Serialize)]
struct UserRow {
    id: i64,
    username: String,
    name: String,
    email: String,
    state: &'static str,
    admin: bool,
    bot: bool,
    external: bool,
    two_factor_enabled: bool,
    created_at: DateTime<Utc>,
    last_sign_in_at: Option<DateTime<Utc>>,
    last_activity_on: Option<NaiveDate>,
}

/// A user with the fields that only `admin users show` prints.
#[derive(Debug, Serialize)]
struct UserDetails {
    #[serde(flatten)]
    row: UserRow,
    confirmed_at: Option<DateTime<Utc>>,
    has_password: bool,
    password_change_required: bool,
    provisioned: bool,
    can_create_group: bool,
    projects_limit: i32,
    personal_projects: u64,
    identities: Vec<String>,
    note: Option<String>,
}

impl From<users::Model> for UserRow {
    fn from(user: users::Model) -> Self {
        Self {
            id: user.id,
            username: user.username,
            name: user.name,
            email: user.email,
            state: user.state.name(),
            admin: user.admin,
            bot: user.bot,
            external: user.external,
            two_factor_enabled: user.two_factor_enabled,
            created_at: user.created_at,
            last_sign_in_at: user.current_sign_in_at,
            last_activity_on: user.last_activity_on,
        }
    }
}

impl Row for UserRow {
    const COLUMNS: &'static [&'static str] = &[
        "ID",
        "USERNAME",
        "STATE",
        "KIND",
        "CREATED",
        "LAST ACTIVITY",
        "EMAIL",
        "NAME",
    ];

    fn id(&self) -> i64 {
        self.id
    }

    fn cells(&self) -> Vec<String> {
        let kind = match (self.admin, self.bot) {
            (true, _) => "admin",
            (false, true) => "bot",
            (false, false) => "user",
        };
        vec![
            self.id.to_string(),
            self.username.clone(),
            self.state.to_owned(),
            kind.to_owned(),
            time_text(self.created_at),
            self.last_activity_on
                .map_or_else(String::new, |day| day.to_string()),
            self.email.clone(),
            self.name.clone(),
        ]
    }
}

/// Runs a subcommand.
pub(super) async fn run(command: UsersCommand) -> CommandResult {
    match command {
        UsersCommand::List(options) => list(options).await,
        UsersCommand::Show(options) => show(options).await,
        UsersCommand::Block(options) => change(options, block).await,
        UsersCommand::Unblock(options) => change(options, unblock).await,
        UsersCommand::Promote(options) => change(options, promote).await,
        UsersCommand::Demote(options) => change(options, demote).await,
        UsersCommand::ResetPassword(options) => reset_password(options).await,
    }
}

async fn list(options: ListOptions) -> CommandResult {
    let filter = UserFilter {
        search: options.search,
        active: matches!(options.state, Some(StateArgument::Active)),
        blocked: matches!(options.state, Some(StateArgument::Blocked)),
        deactivated: matches!(options.state, Some(StateArgument::Deactivated)),
        admins: options.admin,
        ..UserFilter::default()
    };
    let (_, backend) = options.common.open().await?;
    let next = async |after| {
        let users = listing::list_after(&backend, filter.clone(), after, BATCH).await;
        let users = users.map_err(error_text)?;
        Ok::<Vec<_>, Box<dyn Error>>(users.into_iter().map(UserRow::from).collect())
    };
    options.output.print_list(next).await
}

async fn show(options: UserOptions) -> CommandResult {
    let (_, backend) = options.common.open().await?;
    let user = lookup::user(&backend, &options.user).await?;
    let extras = listing::extras(&backend, &user).await.map_err(error_text)?;
    let identities = extras.identities.into_iter();
    options.output.print_resource(&UserDetails {
        confirmed_at: user.confirmed_at,
        has_password: user.password_hash.is_some(),
        password_change_required: user.password_change_required,
        provisioned: user.provisioned,
        can_create_group: user.can_create_group,
        projects_limit: user.projects_limit,
        personal_projects: extras.personal_projects,
        identities: identities
            .map(|identity| format!("{}: {}", identity.provider, identity.extern_uid))
            .collect(),
        note: user.note.clone(),
        row: user.into(),
    })
}

/// Result of a change of a user: whether the user changed, and the sentence that describes the result.
type UserChange = Result<(bool, &'static str), Box<dyn Error>>;

/// Runs a change of a user and prints the result.
async fn change(
    options: UserOptions,
    run: impl AsyncFnOnce(&Backend, users::Model) -> UserChange,
) -> CommandResult {
    let (_, backend) = options.common.open().await?;
    let user = lookup::user(&backend, &options.user).await?;
    let (id, username) = (user.id, user.username.clone());
    let (changed, result) = run(&backend, user).await?;
    let message = format!("User {username} (ID {id}) {result}.");
    options
        .output
        .print_outcome(&Outcome::new(changed, Some(id), message))
}

async fn block(backend: &Backend, user: users::Model) -> UserChange {
    if user.state == UserState::LdapBlocked {
        return Err(format!(
            "user {} is blocked by the LDAP directory, which must unblock the user first",
            user.username
        )
        .into());
    }
    let blocked = accounts::block_as(backend, &Actor::command_line(), user.id).await;
    Ok(match blocked.map_err(error_text)? {
        true => (true, "is now blocked, and the sessions of the user have ended"),
        false => (false, "was already blocked"),
    })
}

async fn unblock(backend: &Backend, user: users::Model) -> UserChange {
    match user.state {
        UserState::LdapBlocked => {
            return Err(format!(
                "user {} is blocked by the LDAP directory, which must unblock the user",
                user.username
            )
            .into());
        }
        UserState::Deactivated => {
            return Err(format!(
                "user {} is deactivated, not blocked; the account becomes active when the user signs in",
                user.username
            )
            .into());
        }
        UserState::Active | UserState::Blocked => {}
    }
    let unblocked = accounts::unblock_as(backend, &Actor::command_line(), user.id).await;
    Ok(match unblocked.map_err(error_text)? {
        true => (true, "is not blocked any more"),
        false => (false, "was not blocked"),
    })
}

async fn promote(backend: &Backend, user: users::Model) -> UserChange {
    if user.admin {
        return Ok((false, "was already an administrator"));
    }
    check_not_bot(&user)?;
    set_admin(backend, user, true).await?;
    Ok((true, "is now an administrator"))
}

async fn demote(backend: &Backend, user: users::Model) -> UserChange {
    if !user.admin {
        return Ok((false, "was not an administrator"));
    }
    set_admin(backend, user, false).await?;
    Ok((true, "is not an administrator any more"))
}

async fn set_admin(backend: &Backend, user: users::Model, admin: bool) -> Result<(), Box<dyn Error>> {
    let changes = UserUpdate {
        details: AdminAttributes {
            admin: Some(admin),
            ..AdminAttributes::default()
        },
        ..UserUpdate::default()
    };
    accounts::update(backend, &Actor::command_line(), user, changes)
        .await
        .map_err(error_text)?;
    Ok(())
}

async fn reset_password(options: ResetPasswordOptions) -> CommandResult {
    let (_, backend) = options.common.open().await?;
    let user = lookup::user(&backend, &options.user).await?;
    check_not_bot(&user)?;
    let new = options.password.read().await?;
    let changes = UserUpdate {
        password: Some(PasswordSource::Chosen(new.password.clone())),
        ..UserUpdate::default()
    };
    let changed = accounts::update(&backend, &Actor::command_line(), user, changes).await;
    let user = changed.map_err(error_text)?;
    let message = format!(
        "User {} (ID {}) has a new password and must change it at the next sign-in; the sessions of the user have \
         ended.",
        user.username, user.id
    );
    let outcome = Outcome::new(true, Some(user.id), message);
    let generated = new.is_generated.then_some(new.password);
    options.output.print_outcome(&outcome.with_password(generated))
}

fn check_not_bot(user: &users::Model) -> Result<(), String> {
    match user.bot {
        true => Err(format!("user {} is the bot of an access token", user.username)),
        false => Ok(()),
    }
}
