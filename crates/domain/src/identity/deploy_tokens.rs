//! Deploy tokens of projects and groups: credentials of programs that read code, and read and write images and
//! packages (ADR 61, ADR 64).
//! They belong to no user. Only their digests are stored.

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder, Select,
};
use storage::entities::deploy_tokens::{ActiveModel, Column, Entity, Model, by_expiry, of};
use storage::entities::{Scope, namespaces, now, projects};

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access_tokens::check_scopes;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result, TokenFault};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::query::page_of;
use crate::secrets::{self, Token};

/// Prefix by which secret scanners recognize the tokens.
const PREFIX: &str = "hfdt-";

/// Scopes of deploy tokens.
const SCOPES: [&str; 5] = [
    "read_repository",
    "read_registry",
    "write_registry",
    "read_package_registry",
    "write_package_registry",
];

/// Maximum number of deploy tokens of a project or group, with expired tokens.
const MAX_DEPLOY_TOKENS: u64 = 100;

/// Attributes of a new token.
#[derive(Debug, Clone)]
pub struct NewDeployToken {
    /// The name.
    pub name: String,
    /// The username of the credentials; a default if it is absent or empty.
    pub username: Option<String>,
    /// The scopes.
    pub scopes: Vec<String>,
    /// When the token expires.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Returns a page of the tokens of all projects and groups, newest first. `active` selects the tokens that have not
/// expired, or the expired ones.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_all(backend: &Backend, active: Option<bool>, page: &PageRequest) -> Result<Page<Model>> {
    page_of_tokens(backend, Entity::find(), active, page).await
}

/// Returns a page of the tokens of a project or group itself, newest first. `active` as in [`list_all`].
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    backend: &Backend,
    space: &SpaceAccess,
    active: Option<bool>,
    page: &PageRequest,
) -> Result<Page<Model>> {
    page_of_tokens(backend, of(space.scope()), active, page).await
}

async fn page_of_tokens(
    backend: &Backend,
    tokens: Select<Entity>,
    active: Option<bool>,
    page: &PageRequest,
) -> Result<Page<Model>> {
    let tokens = match active {
        Some(active) => by_expiry(tokens, !active, now()),
        None => tokens,
    };
    page_of(backend.database.read(), tokens.order_by_desc(Column::Id), page).await
}

/// Returns a token of a project or group itself.
///
/// # Errors
/// Returns `Error::NotFound` if the project or group has no such token.
pub async fn get(backend: &Backend, space: &SpaceAccess, id: i64) -> Result<Model> {
    let found = of(space.scope())
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    found.ok_or_else(not_found)
}

/// Creates a token. The secret is returned only here.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if there are no scopes, an unknown scope, or a character in the username that is
/// not allowed. Returns `Error::Rejected` if the project or group has `MAX_DEPLOY_TOKENS` tokens already.
pub async fn create(backend: &Backend, space: &SpaceAccess, new: NewDeployToken) -> Result<(Model, String)> {
    let scopes = check_scopes(&new.scopes, &SCOPES)?;
    let username = new.username.filter(|username| !username.is_empty());
    check_username(username.as_deref())?;
    let scope = space.scope();
    let secret = Token::generate(PREFIX);
    let row = ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        name: Set(new.name),
        username: Set(username),
        digest: Set(secret.digest()),
        scopes: Set(scopes),
        expires_at: Set(new.expires_at),
        created_at: Set(now()),
        ..Default::default()
    };
    let token = backend
        .database
        .transaction(async |transaction| {
            check_limit(transaction, scope).await?;
            let token = row.insert(transaction).await?;
            let event = event(AuditKind::DeployTokenCreated, space, &token).to(&token.scopes);
            audit::record(transaction, &space.caller, event).await?;
            Ok::<_, Error>(token)
        })
        .await?;
    Ok((token, secret.expose().to_owned()))
}

/// Deletes a token, which ends it at once.
///
/// # Errors
/// Returns `Error::NotFound` if the project or group has no such token. Returns `Error::PreconditionFailed` if it was
/// created after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    space: &SpaceAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let token = get(backend, space, id).await?;
    check_unmodified_since(unmodified_since, token.created_at)?;
    backend
        .database
        .transaction(async |transaction| {
            let deleted = Entity::delete_by_id(token.id).exec(transaction).await?;
            if deleted.rows_affected == 0 {
                return Err(not_found());
            }
            let event = event(AuditKind::DeployTokenDeleted, space, &token).from(&token.scopes);
            audit::record(transaction, &space.caller, event).await
        })
        .await
}

/// Returns whether a text has the form of a deploy token.
pub(crate) fn has_prefix(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Returns the valid token with these credentials. Package clients can send a token without a username.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token is unknown or has another username. Returns `Error::InvalidToken` if it
/// has expired.
pub(crate) async fn find(db: &impl ConnectionTrait, username: Option<&str>, token: &str) -> Result<Model> {
    let found = Entity::find()
        .filter(Column::Digest.eq(secrets::digest(token)))
        .one(db)
        .await?;
    check_valid(found.filter(|token| username.is_none_or(|username| token.username() == username)))
}

/// Returns the valid token with an ID.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token was deleted. Returns `Error::InvalidToken` if it has expired.
pub(crate) async fn find_by_id(db: &impl ConnectionTrait, id: i64) -> Result<Model> {
    check_valid(Entity::find_by_id(id).one(db).await?)
}

fn check_valid(found: Option<Model>) -> Result<Model> {
    let token = found.ok_or(Error::Unauthorized)?;
    match token.is_expired(now()) {
        true => Err(Error::InvalidToken(TokenFault::Expired)),
        false => Ok(token),
    }
}

fn check_username(username: Option<&str>) -> Result<()> {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "_-+.".contains(character);
    match username.is_none_or(|username| username.chars().all(is_allowed)) {
        true => Ok(()),
        false => Err(Error::attribute(
            "username",
            "can contain only letters, digits, '_', '-', '+', and '.'",
        )),
    }
}

/// Checks that the project or group exists and has room for a token. Concurrent additions wait.
async fn check_limit(transaction: &DatabaseTransaction, scope: Scope) -> Result<()> {
    let exists = match scope {
        Scope::Project(id) => projects::lock(transaction, id).await?.is_some(),
        Scope::Group(id) => namespaces::lock(transaction, id).await?.is_some(),
    };
    if !exists {
        return Err(Error::not_found(""));
    }
    if of(scope).count(transaction).await? >= MAX_DEPLOY_TOKENS {
        let text = format!(
            "The maximum number of deploy tokens ({MAX_DEPLOY_TOKENS}) is reached; delete a token first"
        );
        return Err(Error::Rejected(text.into()));
    }
    Ok(())
}

fn event(kind: AuditKind, space: &SpaceAccess, token: &Model) -> AuditEvent {
    let text = format!("{} ({})", token.name, token.username());
    AuditEvent::new(
        kind,
        space.audit_entity(),
        AuditTarget::new("DeployToken", token.id, text),
    )
}

fn not_found() -> Error {
    Error::not_found("Deploy Token")
}
