//! Project access tokens. Each token acts as a separate bot user, which is a member only of that project and is
//! deleted with the token.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Select,
};
use storage::entities::access_tokens::{Column, Entity, Model, TokenKind};
use storage::entities::projects::{self, ProjectWithNamespace};
use storage::entities::{AccessLevel, fold, members, now, project_bots, taken_emails, users};

use crate::accounts::users::deletion::delete_bots;
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::identity::access_tokens::{
    NewToken, TokenActivity, check_scopes, filter, page_of_tokens, prepare,
};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::TOKEN_SCOPES;
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::query::batch_after;

/// Maximum number of active tokens of a project.
const MAX_TOKENS: u64 = 100;
/// Maximum number of tokens of a project with expired tokens, whose bots remain until the tokens are revoked.
const MAX_TOKENS_WITH_EXPIRED: u64 = 1_000;
/// Number of bots that one transaction hides, because a transaction on SQLite blocks all other writes.
const BOTS_PER_TRANSACTION: u64 = 20;

/// Attributes of a new token.
#[derive(Debug, Clone)]
pub struct NewProjectToken {
    /// The name, which is also the name of the bot.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// The last valid day.
    pub expires_at: Option<NaiveDate>,
    /// The role of the bot; Maintainer by default.
    pub access_level: Option<i64>,
}

/// A token with the role of its bot.
#[derive(Debug, Clone)]
pub struct ProjectToken {
    /// The token.
    pub token: Model,
    /// The role; `None` if the membership was removed.
    pub access_level: Option<AccessLevel>,
}

/// Lists the tokens of a project in the order of creation.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list(
    backend: &Backend,
    project_id: i64,
    activity: TokenActivity,
    page: &PageRequest,
) -> Result<Page<ProjectToken>> {
    let found = page_of_tokens(backend, of_project(project_id), activity, page).await?;
    let levels = levels(backend, project_id, &found.items).await?;
    Ok(found.map(|token| ProjectToken {
        access_level: levels.get(&token.user_id).copied(),
        token,
    }))
}

/// Returns a token of a project.
///
/// # Errors
/// Returns `NotFound` if the token does not exist.
pub async fn get(backend: &Backend, project_id: i64, id: i64) -> Result<ProjectToken> {
    let found = of_project(project_id)
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    let token = found.ok_or_else(|| Error::not_found("Project Access Token"))?;
    let levels = levels(backend, project_id, std::slice::from_ref(&token)).await?;
    Ok(ProjectToken {
        access_level: levels.get(&token.user_id).copied(),
        token,
    })
}

/// Creates a token with its bot. The secret is returned only here.
///
/// # Errors
/// Returns a validation error for missing or unknown scopes, for roles that a project does not have, and for a last
/// day in the past. Returns `Forbidden` for bots. Returns `Rejected` if the project has `MAX_TOKENS` active tokens or
/// `MAX_TOKENS_WITH_EXPIRED` tokens, and `NotFound` if the project is being deleted.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    new: NewProjectToken,
) -> Result<(ProjectToken, String)> {
    let creator = access.caller.signed_in()?;
    if creator.bot {
        return Err(Error::forbidden_because(
            "A project access token cannot create project access tokens",
        ));
    }
    let level = parse_level(new.access_level)?;
    let grantable: Vec<&str> = TOKEN_SCOPES
        .into_iter()
        .filter(|scope| *scope != "sudo")
        .collect();
    check_scopes(&new.scopes, &grantable)?;
    if new.expires_at.is_some_and(|last| last < now().date_naive()) {
        return Err(Error::attribute("expires_at", "must not be in the past"));
    }
    let (project_id, creator_id) = (access.project.id, creator.id);
    let (name, last) = (new.name.clone(), new.expires_at);
    let (mut row, secret) = prepare(NewToken {
        user_id: 0,
        name: new.name,
        kind: TokenKind::Project,
        scopes: new.scopes,
        expires_at: last,
        created_by_id: Some(creator_id),
        secret: None,
    })?;
    let token = backend
        .database
        .transaction(async |transaction| {
            check_limit(transaction, project_id).await?;
            let bot = bot(project_id, name, creator_id).insert(transaction).await?;
            taken_emails::take(transaction, &bot.email_key, bot.id).await?;
            let home = project_bots::ActiveModel {
                project_id: Set(project_id),
                user_id: Set(bot.id),
                ..Default::default()
            };
            home.insert(transaction).await?;
            insert_member(transaction, project_id, &bot, level).await?;
            row.user_id = Set(bot.id);
            let token = row.insert(transaction).await?;
            let event = event(AuditKind::ProjectTokenCreated, access.audit_entity(), &token);
            audit::record(transaction, &access.caller, event.to(&token.scopes)).await?;
            Ok::<_, Error>(token)
        })
        .await?;
    let token_detail = ProjectToken {
        token,
        access_level: Some(level),
    };
    Ok((token_detail, secret))
}

/// Revokes a token permanently and deletes its bot.
///
/// # Errors
/// Returns `NotFound` if the token does not exist, or `PreconditionFailed` if it was created after the given
/// date.
pub async fn revoke(backend: &Backend, access: &ProjectAccess, id: i64, since: Option<&str>) -> Result<()> {
    let found = get(backend, access.project.id, id).await?;
    check_unmodified_since(since, found.token.created_at)?;
    let actor = Actor::from(&access.caller);
    match revoke_as(backend, &actor, access.audit_entity(), &found.token).await? {
        true => Ok(()),
        false => Err(Error::not_found("Project Access Token")),
    }
}

/// Revokes a token of a project, for an actor who need not be a user. Returns `false` if its bot was deleted already.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn revoke_as(
    backend: &Backend,
    actor: &Actor,
    project: AuditEntity,
    token: &Model,
) -> Result<bool> {
    backend
        .database
        .transaction(async |transaction| {
            if delete_bots(transaction, vec![token.user_id]).await? == 0 {
                return Ok(false);
            }
            let event = event(AuditKind::ProjectTokenRevoked, project, token);
            audit::record(transaction, actor, event).await?;
            Ok(true)
        })
        .await
}

/// Returns up to `limit` tokens of a project with IDs above `after`, in the order of their IDs.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_after(
    backend: &Backend,
    project_id: i64,
    activity: TokenActivity,
    after: i64,
    limit: u64,
) -> Result<Vec<Model>> {
    let tokens = filter(of_project(project_id), activity);
    batch_after(backend.database.read(), tokens, Column::Id, after, limit).await
}

/// Returns the project to which the bot of a token belongs, with its namespace.
///
/// # Errors
/// Returns `NotFound` if the project or the bot is being deleted.
pub async fn project_of(backend: &Backend, token: &Model) -> Result<ProjectWithNamespace> {
    let db = backend.database.read();
    let missing = || Error::not_found("Project");
    let home = project_bots::Entity::find()
        .filter(project_bots::Column::UserId.eq(token.user_id))
        .one(db)
        .await?
        .ok_or_else(missing)?;
    let found = projects::by_reference(db, &home.project_id.to_string()).await?;
    found.ok_or_else(missing)
}

/// Hides all bots of a project that is being deleted.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete_bots_of_project(backend: &Backend, project_id: i64) -> Result<()> {
    loop {
        let is_complete = backend
            .database
            .transaction(async |transaction| {
                let bots = project_bots::of_project(project_id);
                let bots: Vec<i64> = users::not_deleted()
                    .select_only()
                    .column(users::Column::Id)
                    .filter(users::Column::Id.in_subquery(bots))
                    .order_by_asc(users::Column::Id)
                    .limit(BOTS_PER_TRANSACTION)
                    .into_tuple()
                    .all(transaction)
                    .await?;
                let is_complete = bots.is_empty();
                delete_bots(transaction, bots).await?;
                Ok::<_, Error>(is_complete)
            })
            .await?;
        if is_complete {
            return Ok(());
        }
    }
}

/// Checks that the project exists and has room for a token. Concurrent additions wait.
async fn check_limit(transaction: &DatabaseTransaction, project_id: i64) -> Result<()> {
    let locked = projects::lock_for_insert(transaction, project_id).await?;
    locked.ok_or_else(|| Error::not_found("Project"))?;
    let active = filter(of_project(project_id), TokenActivity::Active);
    if active.count(transaction).await? >= MAX_TOKENS {
        let text = format!(
            "The maximum number of active project access tokens ({MAX_TOKENS}) is reached; revoke a token first"
        );
        return Err(Error::Rejected(text.into()));
    }
    if of_project(project_id).count(transaction).await? >= MAX_TOKENS_WITH_EXPIRED {
        let text = format!(
            "The maximum number of project access tokens ({MAX_TOKENS_WITH_EXPIRED}, including expired tokens) is \
             reached; revoke expired tokens first"
        );
        return Err(Error::Rejected(text.into()));
    }
    Ok(())
}

fn event(kind: AuditKind, project: AuditEntity, token: &Model) -> AuditEvent {
    let target = AuditTarget::new("AccessToken", token.id, token.name.clone());
    AuditEvent::new(kind, project, target)
}

fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::Kind.eq(TokenKind::Project))
        .filter(Column::UserId.in_subquery(project_bots::of_project(project_id)))
        .order_by_asc(Column::Id)
}

async fn levels(backend: &Backend, project_id: i64, tokens: &[Model]) -> Result<HashMap<i64, AccessLevel>> {
    let rows: Vec<(i64, AccessLevel)> = members::Entity::find()
        .select_only()
        .column(members::Column::UserId)
        .column(members::Column::AccessLevel)
        .filter(members::Column::ProjectId.eq(project_id))
        .filter(members::Column::UserId.is_in(tokens.iter().map(|token| token.user_id)))
        .into_tuple()
        .all(backend.database.read())
        .await?;
    Ok(rows.into_iter().collect())
}

fn parse_level(level: Option<i64>) -> Result<AccessLevel> {
    let Some(number) = level else {
        return Ok(AccessLevel::Maintainer);
    };
    i32::try_from(number)
        .ok()
        .and_then(|number| AccessLevel::try_from(number).ok())
        .filter(|level| *level <= AccessLevel::Maintainer)
        .ok_or_else(|| Error::attribute("access_level", "is not included in the list"))
}

/// Returns a bot user. It sees only its project and public resources, cannot create groups or projects, and
/// gets no email.
fn bot(project_id: i64, name: String, creator_id: i64) -> users::ActiveModel {
    let username = format!(
        "project_{project_id}_bot_{}",
        hex::encode(rand::random::<[u8; 8]>())
    );
    let email = format!("{username}@noreply.invalid");
    let at = now();
    users::ActiveModel {
        username_key: Set(fold(&username)),
        username: Set(username),
        name: Set(name),
        email_key: Set(fold(&email)),
        email: Set(email),
        bot: Set(true),
        external: Set(true),
        can_create_group: Set(false),
        projects_limit: Set(0),
        confirmed_at: Set(Some(at)),
        created_by_id: Set(Some(creator_id)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    }
}

async fn insert_member(
    transaction: &DatabaseTransaction,
    project_id: i64,
    bot: &users::Model,
    level: AccessLevel,
) -> Result<()> {
    let at = now();
    let row = members::ActiveModel {
        user_id: Set(bot.id),
        project_id: Set(Some(project_id)),
        access_level: Set(level),
        created_by_id: Set(bot.created_by_id),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    row.insert(transaction).await?;
    Ok(())
}
