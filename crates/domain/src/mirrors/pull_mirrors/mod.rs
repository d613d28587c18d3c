//! Pull mirrors: repositories from which projects fetch their branches and tags. This module has their settings;
//! [`schedule`] decides when a mirror is updated, and [`update`] fetches.

mod plan;
pub mod schedule;
pub mod update;

use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, DatabaseTransaction, IntoActiveModel};
use storage::clock::scheduling_time;
use storage::entities::pull_mirrors::{self, ActiveModel, Model};
use storage::entities::remote_mirrors::MirrorStatus;
use storage::entities::{now, projects, pull_mirror_refs, row_changes};
use url::Url;

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::instance::settings::allows_local_requests;
use crate::integrations::git_remotes::{RemoteUrl, UrlChange};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::mirrors::url_error;
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};

/// Text if a project has no pull mirror, or the mirror is disabled.
const NOT_MIRRORED: &str = "The project is not mirrored";

/// Names of the attributes of [`PullMirrorChange`] in the contract.
const FIELDS: [&str; 7] = [
    "url",
    "auth_user",
    "auth_password",
    "enabled",
    "mirror_trigger_builds",
    "only_mirror_protected_branches",
    "mirror_overwrites_diverged_branches",
];

/// Changes of a pull mirror. Absent attributes do not change, and are false in a new mirror.
#[derive(Debug, Clone, Default)]
pub struct PullMirrorChange {
    /// The URL, which can contain credentials.
    pub url: Option<String>,
    /// The username at the remote repository.
    pub auth_user: Option<String>,
    /// The password at the remote repository.
    pub auth_password: Option<Secret<String>>,
    /// Whether the project is updated regularly.
    pub enabled: Option<bool>,
    /// Whether updates trigger pipelines. The value is stored but has no effect.
    pub trigger_builds: Option<bool>,
    /// Whether only protected branches are updated.
    pub only_protected_branches: Option<bool>,
    /// Whether updates overwrite branches that have diverged.
    pub overwrites_diverged_branches: Option<bool>,
}

/// A pull mirror and the project with its settings.
#[derive(Debug, Clone)]
pub struct PullMirror {
    /// The mirror.
    pub mirror: Model,
    /// The project.
    pub project: projects::Model,
}

/// Returns the pull mirror of a project.
///
/// # Errors
/// Returns `Error::Rejected` if the project has none.
pub async fn get(backend: &Backend, access: &ProjectAccess) -> Result<PullMirror> {
    Ok(PullMirror {
        mirror: find(backend.database.read(), access.project.id).await?,
        project: access.project.clone(),
    })
}

async fn find(db: &impl ConnectionTrait, project_id: i64) -> Result<Model> {
    let found = pull_mirrors::of_project(project_id).one(db).await?;
    found.ok_or_else(|| Error::Rejected(NOT_MIRRORED.into()))
}

/// Creates or changes the pull mirror of a project. The caller becomes the user on whose behalf the project is updated.
/// A mirror that is enabled, or gets another URL or other credentials, is updated as soon as possible.
///
/// # Errors
/// Returns `Error::InvalidParameters` without attributes. Returns `Error::InvalidAttributes` if the URL is missing or
/// not allowed.
pub async fn set(backend: &Backend, access: &ProjectAccess, change: PullMirrorChange) -> Result<PullMirror> {
    let settings = [
        change.enabled,
        change.trigger_builds,
        change.only_protected_branches,
        change.overwrites_diverged_branches,
    ];
    let has_url = change.url.is_some() || change.auth_user.is_some() || change.auth_password.is_some();
    if !has_url && settings.iter().all(Option::is_none) {
        return Err(Error::no_parameters(&FIELDS));
    }
    let local = allows_local_requests(backend).await?;
    let user_id = access.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let project = projects::lock(transaction, access.project.id).await?;
            let project = project.ok_or_else(|| Error::not_found("Project"))?;
            // A running update records the branches that it fetched under this lock, before or after the URL changes.
            let found = pull_mirrors::lock(transaction, project.id).await?;
            let stored = found.as_ref().map(|mirror| stored_url(backend, mirror));
            let url_change = UrlChange {
                url: change.url.clone(),
                user: change.auth_user.clone(),
                password: change.auth_password.clone(),
            };
            if stored.is_none() && url_change.url.is_none() {
                return Err(Error::attribute("url", "can't be blank"));
            }
            let mirror = match has_url {
                true => {
                    let url = RemoteUrl::changed(stored, url_change, local).map_err(url_error)?;
                    store_url(backend, transaction, &project, found.as_ref(), &url).await?
                }
                false => found
                    .clone()
                    .ok_or_else(|| Error::Rejected(NOT_MIRRORED.into()))?,
            };
            let mut row = projects::ActiveModel {
                id: Set(project.id),
                mirror_user_id: Set(Some(user_id)),
                ..Default::default()
            };
            for (column, value) in [
                (&mut row.mirror, change.enabled),
                (&mut row.mirror_trigger_builds, change.trigger_builds),
                (
                    &mut row.only_mirror_protected_branches,
                    change.only_protected_branches,
                ),
                (
                    &mut row.mirror_overwrites_diverged_branches,
                    change.overwrites_diverged_branches,
                ),
            ] {
                if let Some(value) = value {
                    *column = Set(value);
                }
            }
            let updated = row_changes::update_if_changed(transaction, &project, row).await?;
            let is_new_remote = found.as_ref() != Some(&mirror);
            let has_stopped = change.enabled == Some(true) && mirror.next_update_at.is_none();
            let mirror = match updated.mirror && (is_new_remote || has_stopped || !project.mirror) {
                true => schedule::schedule_now(backend, transaction, mirror.id).await?,
                false => mirror,
            };
            record_change(
                transaction,
                access,
                (found.as_ref(), &project),
                (&mirror, &updated),
            )
            .await?;
            Ok(PullMirror {
                mirror,
                project: updated,
            })
        })
        .await
}

/// Returns the URL of a mirror with its credentials. If they cannot be decrypted, the mirror has none.
fn stored_url(backend: &Backend, mirror: &Model) -> RemoteUrl {
    let encrypted = mirror.credentials_encrypted.as_deref();
    let decrypted = encrypted.map(|encrypted| {
        backend
            .keyring
            .decrypt(encrypted, &credentials_context(mirror.id))
    });
    let credentials = decrypted.and_then(|decrypted| match decrypted {
        Ok(credentials) => Some(credentials),
        Err(error) => {
            tracing::error!(%error, mirror = mirror.id, "failed to decrypt the credentials of a pull mirror");
            None
        }
    });
    RemoteUrl {
        shown: mirror.url.clone(),
        credentials,
    }
}

/// Stores the URL of a new or changed mirror.
async fn store_url(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    project: &projects::Model,
    found: Option<&Model>,
    url: &RemoteUrl,
) -> Result<Model> {
    let mirror = match found {
        Some(found) => found.clone(),
        None => {
            let at = now();
            let row = ActiveModel {
                project_id: Set(project.id),
                url: Set(url.shown.clone()),
                update_status: Set(MirrorStatus::None),
                failures: Set(0),
                next_update_at: Set(Some(scheduling_time())),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            row.insert(transaction).await?
        }
    };
    let same_credentials = stored_url(backend, &mirror).credentials.map(Secret::into_exposed)
        == url
            .credentials
            .as_ref()
            .map(|credentials| credentials.expose().clone());
    if mirror.url == url.shown && same_credentials {
        return Ok(mirror);
    }
    let is_moved = mirror.url != url.shown;
    if is_moved {
        // The branches of the former remote repository become branches of the project.
        pull_mirror_refs::forget_all(transaction, mirror.id).await?;
    }
    let encrypted = match &url.credentials {
        Some(credentials) => {
            let encryptor = backend.keyring.encryptor(transaction).await?;
            Some(encryptor.encrypt(credentials.expose(), &credentials_context(mirror.id))?)
        }
        None => None,
    };
    // An update from the former URL does not record its result.
    let is_interrupted = is_moved && mirror.update_status == MirrorStatus::Started;
    let mut row = mirror.into_active_model();
    if is_interrupted {
        row.update_status = Set(MirrorStatus::None);
    }
    row.url = Set(url.shown.clone());
    row.credentials_encrypted = Set(encrypted);
    row.updated_at = Set(now());
    Ok(row.update(transaction).await?)
}

/// Schedules an update for now, also after many failures.
///
/// # Errors
/// Returns `Error::Rejected` if the project has no mirror, or the mirror is disabled.
pub async fn start(backend: &Backend, access: &ProjectAccess) -> Result<PullMirror> {
    backend
        .database
        .transaction(async |transaction| {
            let mirror = find(transaction, access.project.id).await?;
            if !access.project.mirror {
                return Err(Error::Rejected(NOT_MIRRORED.into()));
            }
            Ok(PullMirror {
                mirror: schedule::schedule_now(backend, transaction, mirror.id).await?,
                project: access.project.clone(),
            })
        })
        .await
}

async fn record_change(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    before: (Option<&Model>, &projects::Model),
    after: (&Model, &projects::Model),
) -> Result<()> {
    let (changed, updated) = after;
    let (Some(mirror), project) = before else {
        let event = event(access, changed).to(described(changed, updated));
        return audit::record(transaction, &access.caller, event).await;
    };
    let is_changed =
        mirror.url != changed.url || mirror.credentials_encrypted != changed.credentials_encrypted;
    let (from, to) = (described(mirror, project), described(changed, updated));
    if from == to && !is_changed {
        return Ok(());
    }
    let event = event(access, changed).from(from).to(to);
    audit::record(transaction, &access.caller, event).await
}

fn event(access: &ProjectAccess, mirror: &Model) -> AuditEvent {
    let target = AuditTarget::new("PullMirror", mirror.id, origin(mirror));
    AuditEvent::new(AuditKind::PullMirrorChanged, access.audit_entity(), target)
}

/// Returns the server of a mirror. Paths and usernames can contain secrets.
fn origin(mirror: &Model) -> String {
    Url::parse(&mirror.url).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization())
}

/// Returns the settings for an audit event.
fn described(mirror: &Model, project: &projects::Model) -> String {
    format!(
        "{}, enabled: {}, only_mirror_protected_branches: {}, mirror_overwrites_diverged_branches: {}, user: {}",
        origin(mirror),
        project.mirror,
        project.only_mirror_protected_branches,
        project.mirror_overwrites_diverged_branches,
        project
            .mirror_user_id
            .map_or_else(String::new, |id| id.to_string()),
    )
}

/// Returns the context to which the encryption of the credentials is bound.
fn credentials_context(mirror_id: i64) -> EncryptionContext {
    EncryptedColumn::PullMirrorCredentials.context(&[&mirror_id])
}
