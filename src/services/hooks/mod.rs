//! Webhooks of projects (specification 4.5 and 6): their settings here, what they are told in [`payloads`], the
//! way there in [`outbox`] and [`delivery`], and what came of it in [`log`].

mod attempt;
pub mod delivery;
pub mod log;
pub mod outbox;
pub mod payloads;
pub mod trial;

use git::check_branch_name;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use storage::entities::project_hooks::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{now, projects};

use crate::error::{Error, Result};
use crate::integrations::webhooks::{HIDDEN, Target};
use crate::secrets::Secret;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::kernel::patch::Patch;
use crate::services::listing::page_of;
use crate::services::{preconditions, settings as instance_settings};

/// How many hooks a project may have.
const MOST: u64 = 100;

/// What a caller says of a hook; what is absent stays, or is the default of a new one.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where to send.
    pub url: String,
    /// What the receiver knows deliveries by; null and the empty text take it away.
    pub token: Patch<Secret<String>>,
    /// Whether it is told of branches that move.
    pub push_events: Option<bool>,
    /// Which branches.
    pub push_events_branch_filter: Patch<String>,
    /// Whether it is told of tags.
    pub tag_push_events: Option<bool>,
    /// Whether it is told of issues.
    pub issues_events: Option<bool>,
    /// Whether it is told of confidential issues.
    pub confidential_issues_events: Option<bool>,
    /// Whether it is told of merge requests.
    pub merge_requests_events: Option<bool>,
    /// Whether it is told of comments.
    pub note_events: Option<bool>,
    /// Whether it is told of comments on what is confidential.
    pub confidential_note_events: Option<bool>,
    /// Whether it is told of jobs.
    pub job_events: Option<bool>,
    /// Whether it is told of pipelines.
    pub pipeline_events: Option<bool>,
    /// Whether it is told of pages of the wiki.
    pub wiki_page_events: Option<bool>,
    /// Whether the receiver's certificate must be valid.
    pub enable_ssl_verification: Option<bool>,
}

/// A page of a project's hooks, in the order they were made.
///
/// # Errors
/// Whatever the database reports.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Model>> {
    page_of(
        backend.database.read(),
        project_hooks::of_project(access.project.id),
        page,
    )
    .await
}

/// One hook of a project.
///
/// # Errors
/// 404, also for a hook of another project.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Model> {
    find(backend.database.read(), access, id).await
}

async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = project_hooks::of_project(access.project.id)
        .filter(Column::Id.eq(id))
        .one(db)
        .await?;
    found.ok_or_else(|| Error::not_found(""))
}

/// Makes a hook.
///
/// # Errors
/// 422 for an address, token or filter that does not do, and for more hooks than a project may have.
pub async fn create(backend: &Backend, access: &ProjectAccess, settings: Settings) -> Result<Model> {
    let project_id = access.project.id;
    let target = target(backend, &settings.url).await?;
    let token = token(settings.token.clone())?;
    let at = now();
    let mut row = ActiveModel {
        project_id: Set(project_id),
        url: Set(target.shown.clone()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    apply(&mut row, &settings)?;
    backend
        .database
        .transaction(async |transaction| {
            // One at a time, so that two cannot both be the last.
            if projects::lock(transaction, project_id).await?.is_none() {
                return Err(Error::not_found("Project"));
            }
            if project_hooks::of_project(project_id).count(transaction).await? >= MOST {
                let text = format!("Maximum number of project hooks ({MOST}) exceeded");
                return Err(Error::Unprocessable(text.into()));
            }
            let hook = row.insert(transaction).await?;
            let mut secrets = hook.clone().into_active_model();
            if let Some(password) = &target.password {
                secrets.password_encrypted = Set(Some(seal(backend, password, &password_place(hook.id))?));
            }
            if let Some(Some(token)) = &token {
                secrets.token_encrypted = Set(Some(seal(backend, token, &token_place(hook.id))?));
            }
            if secrets.is_changed() {
                return Ok(secrets.update(transaction).await?);
            }
            Ok(hook)
        })
        .await
}

/// Changes what is said of a hook, and switches it on again where it was switched off.
///
/// # Errors
/// 404, and 422 as [`create`]; also for a hidden password with an address that is not the one it was shown with.
pub async fn update(backend: &Backend, access: &ProjectAccess, id: i64, settings: Settings) -> Result<Model> {
    let target = target(backend, &settings.url).await?;
    let token = token(settings.token.clone())?;
    backend
        .database
        .transaction(async |transaction| {
            projects::lock(transaction, access.project.id).await?;
            let hook = find(transaction, access, id).await?;
            let mut row = hook.clone().into_active_model();
            let unseen = target
                .password
                .as_ref()
                .is_some_and(|password| password.expose() == HIDDEN);
            if unseen && target.shown != hook.url {
                return Err(invalid(
                    "Invalid url given: the hidden password can be used only with the same url",
                ));
            }
            if !unseen {
                row.password_encrypted = Set(match &target.password {
                    Some(password) => Some(seal(backend, password, &password_place(id))?),
                    None => None,
                });
            }
            row.url = Set(target.shown.clone());
            if let Some(token) = &token {
                row.token_encrypted = Set(match token {
                    Some(token) => Some(seal(backend, token, &token_place(id))?),
                    None => None,
                });
            }
            apply(&mut row, &settings)?;
            row.updated_at = Set(now());
            row.update(transaction).await?;
            delivery::revive(transaction, id).await?;
            find(transaction, access, id).await
        })
        .await
}

/// Deletes a hook with what it was still to be told.
///
/// # Errors
/// 404, and 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let hook = get(backend, access, id).await?;
    preconditions::unmodified_since(unmodified_since, hook.updated_at)?;
    Entity::delete_by_id(id).exec(backend.database.write()).await?;
    Ok(())
}

fn apply(row: &mut ActiveModel, settings: &Settings) -> Result<()> {
    match &settings.push_events_branch_filter {
        Patch::Keep => {}
        Patch::Clear => row.push_events_branch_filter = Set(None),
        Patch::Set(filter) => row.push_events_branch_filter = Set(branch_filter(filter)?),
    }
    for (column, value) in [
        (&mut row.push_events, settings.push_events),
        (&mut row.tag_push_events, settings.tag_push_events),
        (&mut row.issues_events, settings.issues_events),
        (
            &mut row.confidential_issues_events,
            settings.confidential_issues_events,
        ),
        (&mut row.merge_requests_events, settings.merge_requests_events),
        (&mut row.note_events, settings.note_events),
        (
            &mut row.confidential_note_events,
            settings.confidential_note_events,
        ),
        (&mut row.job_events, settings.job_events),
        (&mut row.pipeline_events, settings.pipeline_events),
        (&mut row.wiki_page_events, settings.wiki_page_events),
        (&mut row.enable_ssl_verification, settings.enable_ssl_verification),
    ] {
        if let Some(value) = value {
            *column = Set(value);
        }
    }
    Ok(())
}

fn invalid(text: &'static str) -> Error {
    Error::Unprocessable(text.into())
}

async fn target(backend: &Backend, url: &str) -> Result<Target> {
    let local = may_be_local(backend).await?;
    Target::parse(url.trim(), local).map_err(|_| invalid("Invalid url given"))
}

/// Whether hooks may reach loopback and private addresses: where the operator allows it, or the administrators do at
/// the moment.
async fn may_be_local(backend: &Backend) -> Result<bool> {
    if backend.webhooks.is_local_allowed() {
        return Ok(true);
    }
    let in_force = instance_settings::read(backend).await?;
    Ok(in_force.allow_local_requests_from_hooks_and_services)
}

/// The token to keep, if anything is said of it.
fn token(token: Patch<Secret<String>>) -> Result<Option<Option<Secret<String>>>> {
    match token {
        Patch::Keep => Ok(None),
        Patch::Clear => Ok(Some(None)),
        Patch::Set(token) if token.expose().chars().any(char::is_control) => {
            Err(invalid("Invalid token given"))
        }
        Patch::Set(token) => Ok(Some(Some(token).filter(|token| !token.expose().is_empty()))),
    }
}

/// A branch's name or a pattern of names; none when it is blank.
fn branch_filter(filter: &str) -> Result<Option<String>> {
    let filter = filter.trim();
    if filter.is_empty() {
        return Ok(None);
    }
    check_branch_name(&filter.replace('*', "x")).map_err(|_| invalid("Invalid branch filter given"))?;
    Ok(Some(filter.to_owned()))
}

fn seal(backend: &Backend, value: &Secret<String>, place: &str) -> Result<String> {
    Ok(backend.keyring.encrypt(value.expose(), place)?)
}

fn password_place(hook_id: i64) -> String {
    format!("project_hooks.password:{hook_id}")
}

fn token_place(hook_id: i64) -> String {
    format!("project_hooks.token:{hook_id}")
}
