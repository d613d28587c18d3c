//! `holdfast admin tokens`: access tokens. The secrets are not stored, so no command prints them.

use std::error::Error as StdError;

use chrono::{DateTime, NaiveDate, Utc};
use clap::{Args, Subcommand, ValueEnum};
use domain::accounts::project_access_tokens;
use domain::audit::{Actor, AuditEntity};
use domain::identity::access_tokens::{self, TokenActivity, TokenKind};
use domain::identity::oauth::revocation;
use domain::kernel::Backend;
use domain::kernel::error::Error;
use domain::spaces::single_sign_on;
use serde::Serialize;
use storage::entities::access_tokens::Model;
use storage::entities::now;

use super::context::{CommandResult, CommonOptions, error_text};
use super::lookup;
use super::report::{BATCH, Outcome, OutputOptions, Row, time_text};

/// A subcommand of `admin tokens`.
#[derive(Debug, Subcommand)]
pub(super) enum TokensCommand {
    /// List the tokens of a user, a project or a group in the order of their IDs
    #[command(after_help = "Example:\n  holdfast admin tokens list --user ann --state active")]
    List(ListOptions),
    /// Revoke a token
    #[command(
        after_help = "Examples:\n  holdfast admin tokens revoke 7\n  holdfast admin tokens revoke --group bank"
    )]
    Revoke(RevokeOptions),
    /// Revoke the OAuth tokens of a user for all applications
    #[command(after_help = "Example:\n  holdfast admin tokens revoke-oauth ann")]
    RevokeOauth(RevokeOauthOptions),
}

/// Options of `admin tokens list`.
#[derive(Debug, Args)]
pub(super) struct ListOptions {
    #[command(flatten)]
    owner: OwnerOptions,
    /// List only tokens in this state
    #[arg(long, value_enum)]
    state: Option<StateArgument>,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// Owner of the listed tokens.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct OwnerOptions {
    /// List the personal and impersonation tokens of a user, given by ID or username
    #[arg(long)]
    user: Option<String>,
    /// List the access tokens of a project, given by ID or full path
    #[arg(long)]
    project: Option<String>,
    /// List the SCIM token of a group, given by ID or full path
    #[arg(long)]
    group: Option<String>,
}

/// State of listed tokens.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateArgument {
    /// Tokens that are valid
    Active,
    /// Revoked and expired tokens
    Inactive,
}

/// Options of `admin tokens revoke`.
#[derive(Debug, Args)]
pub(super) struct RevokeOptions {
    /// ID of a personal, impersonation or project access token
    #[arg(required_unless_present = "group")]
    id: Option<i64>,
    /// Revoke the SCIM token of a group, given by ID or full path
    #[arg(long, conflicts_with = "id")]
    group: Option<String>,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of `admin tokens revoke-oauth`.
#[derive(Debug, Args)]
pub(super) struct RevokeOauthOptions {
    /// ID or username of the user
    user: String,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    common: CommonOptions,
}

/// A token as it is printed. `docs/ADMIN.md` documents the fields.
#[derive(Debug, Serialize)]
struct TokenRow {
    id: i64,
    kind: &'static str,
    name: String,
    state: &'static str,
    scopes: Vec<String>,
    created_at: DateTime<Utc>,
    expires_at: Option<NaiveDate>,
    last_used_at: Option<DateTime<Utc>>,
}

impl TokenRow {
    fn new(token: &Model, today: NaiveDate) -> Self {
        Self {
            id: token.id,
            kind: match token.kind {
                TokenKind::Personal => "personal",
                TokenKind::Impersonation => "impersonation",
                TokenKind::Project => "project",
            },
            name: token.name.clone(),
            state: match (token.revoked, token.is_expired(today)) {
                (true, _) => "revoked",
                (false, true) => "expired",
                (false, false) => "active",
            },
            scopes: token.scopes().map(str::to_owned).collect(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
        }
    }
}

impl Row for TokenRow {
    const COLUMNS: &'static [&'static str] = &[
        "ID",
        "KIND",
        "STATE",
        "SCOPES",
        "CREATED",
        "EXPIRES",
        "LAST USED",
        "NAME",
    ];

    fn id(&self) -> i64 {
        self.id
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.kind.to_owned(),
            self.state.to_owned(),
            self.scopes.join(","),
            time_text(self.created_at),
            self.expires_at.map_or_else(String::new, |day| day.to_string()),
            self.last_used_at.map_or_else(String::new, time_text),
            self.name.clone(),
        ]
    }
}

/// Runs a subcommand.
pub(super) async fn run(command: TokensCommand) -> CommandResult {
    match command {
        TokensCommand::List(options) => list(options).await,
        TokensCommand::Revoke(options) => revoke(options).await,
        TokensCommand::RevokeOauth(options) => revoke_oauth(options).await,
    }
}

/// The owner of listed tokens.
#[derive(Clone, Copy)]
enum Owner {
    User(i64),
    Project(i64),
    Group(i64),
}

async fn list(options: ListOptions) -> CommandResult {
    let (_, backend) = options.common.open().await?;
    let owner = owner(&backend, options.owner).await?;
    let state = match options.state {
        None => TokenActivity::Any,
        Some(StateArgument::Active) => TokenActivity::Active,
        Some(StateArgument::Inactive) => TokenActivity::Inactive,
    };
    let next = async |after| batch(&backend, owner, state, after).await;
    options.output.print_list(next).await
}

async fn owner(backend: &Backend, options: OwnerOptions) -> Result<Owner, Box<dyn StdError>> {
    if let Some(user) = options.user {
        return Ok(Owner::User(lookup::user(backend, &user).await?.id));
    }
    let administrator = lookup::administrator(backend).await?;
    if let Some(project) = options.project {
        let access = lookup::project(backend, administrator, &project).await?;
        return Ok(Owner::Project(access.project.id));
    }
    let group = options.group.unwrap_or_default();
    Ok(Owner::Group(
        lookup::group(backend, administrator, &group).await?.group.id,
    ))
}

async fn batch(
    backend: &Backend,
    owner: Owner,
    state: TokenActivity,
    after: i64,
) -> Result<Vec<TokenRow>, Box<dyn StdError>> {
    let tokens = match owner {
        Owner::User(id) => access_tokens::list_after(backend, id, state, after, BATCH).await,
        Owner::Project(id) => project_access_tokens::list_after(backend, id, state, after, BATCH).await,
        Owner::Group(id) => return scim_token(backend, id, state, after).await,
    };
    let today = now().date_naive();
    let tokens = tokens.map_err(error_text)?;
    Ok(tokens.iter().map(|token| TokenRow::new(token, today)).collect())
}

/// Returns the SCIM token of a group, which does not expire and is deleted when it is revoked.
async fn scim_token(
    backend: &Backend,
    group_id: i64,
    state: TokenActivity,
    after: i64,
) -> Result<Vec<TokenRow>, Box<dyn StdError>> {
    let token = single_sign_on::token(backend, group_id)
        .await
        .map_err(error_text)?;
    let listed = token.filter(|token| token.id > after && state != TokenActivity::Inactive);
    let row = listed.map(|token| TokenRow {
        id: token.id,
        kind: "scim",
        name: "SCIM".to_owned(),
        state: "active",
        scopes: vec!["scim".to_owned()],
        created_at: token.created_at,
        expires_at: None,
        last_used_at: None,
    });
    Ok(row.into_iter().collect())
}

async fn revoke(options: RevokeOptions) -> CommandResult {
    let (_, backend) = options.common.open().await?;
    let outcome = match (options.id, options.group) {
        (Some(id), _) => revoke_token(&backend, id).await?,
        (None, group) => revoke_scim_token(&backend, &group.unwrap_or_default()).await?,
    };
    options.output.print_outcome(&outcome)
}

async fn revoke_token(backend: &Backend, id: i64) -> Result<Outcome, Box<dyn StdError>> {
    let token = match access_tokens::get(backend, id).await {
        Err(Error::NotFound(_)) => {
            return Err(format!(
                "token {id} does not exist; list tokens with: holdfast admin tokens list --user USER"
            )
            .into());
        }
        found => found.map_err(error_text)?,
    };
    let actor = Actor::command_line();
    let changed = match token.kind {
        TokenKind::Personal | TokenKind::Impersonation => {
            access_tokens::revoke_as(backend, &actor, &token, None)
                .await
                .map_err(error_text)?
        }
        TokenKind::Project => {
            let project = project_access_tokens::project_of(backend, &token).await;
            let (project, namespace) = project.map_err(error_text)?;
            let entity = AuditEntity::project(&namespace, &project);
            project_access_tokens::revoke_as(backend, &actor, entity, &token)
                .await
                .map_err(error_text)?
        }
    };
    let message = match changed {
        true => format!("Token {id} ({:?}) is now revoked.", token.name),
        false => format!("Token {id} ({:?}) was already revoked.", token.name),
    };
    Ok(Outcome::new(changed, Some(id), message))
}

async fn revoke_scim_token(backend: &Backend, group: &str) -> Result<Outcome, Box<dyn StdError>> {
    let administrator = lookup::administrator(backend).await?;
    let group = lookup::group(backend, administrator, group).await?.group;
    let revoked = single_sign_on::revoke_token_as(backend, &Actor::command_line(), group.id, None).await;
    match revoked {
        Err(Error::NotFound(_)) => {
            Err(format!("group {} (ID {}) has no SCIM token", group.full_path, group.id).into())
        }
        revoked => {
            revoked.map_err(error_text)?;
            let message = format!(
                "The SCIM token of group {} (ID {}) is now revoked.",
                group.full_path, group.id
            );
            Ok(Outcome::new(true, None, message))
        }
    }
}

async fn revoke_oauth(options: RevokeOauthOptions) -> CommandResult {
    let (_, backend) = options.common.open().await?;
    let user = lookup::user(&backend, &options.user).await?;
    let revoked = revocation::revoke_all_as(&backend, &Actor::command_line(), user.id).await;
    let applications = revoked.map_err(error_text)?;
    let names: Vec<String> = applications
        .iter()
        .map(|application| format!("{:?}", application.name))
        .collect();
    let message = match names.is_empty() {
        true => format!("User {} (ID {}) has no OAuth tokens.", user.username, user.id),
        false => format!(
            "The OAuth tokens of user {} (ID {}) are now revoked for these applications: {}.",
            user.username,
            user.id,
            names.join(", ")
        ),
    };
    let outcome = Outcome::new(!names.is_empty(), Some(user.id), message);
    options.output.print_outcome(&outcome)
}
