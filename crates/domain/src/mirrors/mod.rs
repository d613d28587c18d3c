//! Remote mirrors: repositories to which projects push their branches and tags. This module has their settings;
//! [`schedule`] decides when a mirror is updated, and [`updates`] pushes. [`pull_mirrors`] are repositories from which
//! projects fetch, and [`project_imports`] fetch a repository once, into a new project.

pub mod jobs;
mod plan;
pub mod project_imports;
pub mod pull_mirrors;
pub mod schedule;
pub mod updates;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use storage::entities::remote_mirrors::{self, ActiveModel, Column, Entity, MirrorStatus, Model};
use storage::entities::{now, projects, row_changes};
use url::Url;

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::instance::settings::{allows_local_requests, rejected_remote};
use crate::integrations::git_remotes::{RejectedRemote, RemoteUrl};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::query::page_of;
use crate::secrets::{EncryptedColumn, EncryptionContext};

/// Maximum number of remote mirrors of a project.
const MAX_MIRRORS: u64 = 10;

/// Settings of a remote mirror. Absent ones stay, or are false in a new mirror.
#[derive(Debug, Clone, Copy, Default)]
pub struct MirrorSettings {
    /// Whether changes of the project are pushed.
    pub enabled: Option<bool>,
    /// Whether only protected branches are pushed.
    pub only_protected_branches: Option<bool>,
    /// Whether refs that were changed in the mirror keep their targets.
    pub keep_divergent_refs: Option<bool>,
}

/// Returns a page of a project's remote mirrors in order of creation.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Model>> {
    let mirrors = remote_mirrors::of_project(access.project.id);
    page_of(backend.database.read(), mirrors, page).await
}

/// Returns one remote mirror of a project.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Model> {
    find(backend.database.read(), access, id).await
}

async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = remote_mirrors::of_project(access.project.id)
        .filter(Column::Id.eq(id))
        .one(db)
        .await?;
    found.ok_or_else(|| Error::not_found(""))
}

/// Creates a remote mirror. It is updated after the next change of a branch or tag.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the URL is not allowed, and `Error::Rejected` if the project has `MAX_MIRRORS`
/// mirrors already.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    url: &str,
    settings: MirrorSettings,
) -> Result<Model> {
    let project_id = access.project.id;
    let local = allows_local_requests(backend).await?;
    let url = RemoteUrl::parse(url.trim(), local).map_err(url_error)?;
    let at = now();
    let row = ActiveModel {
        project_id: Set(project_id),
        url: Set(url.shown.clone()),
        enabled: Set(settings.enabled.unwrap_or(false)),
        only_protected_branches: Set(settings.only_protected_branches.unwrap_or(false)),
        keep_divergent_refs: Set(settings.keep_divergent_refs.unwrap_or(false)),
        update_status: Set(MirrorStatus::None),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes inserts, so that concurrent ones cannot exceed the maximum.
            if projects::lock(transaction, project_id).await?.is_none() {
                return Err(Error::not_found("Project"));
            }
            let count = remote_mirrors::of_project(project_id).count(transaction).await?;
            if count >= MAX_MIRRORS {
                let text = format!("Maximum number of remote mirrors ({MAX_MIRRORS}) exceeded");
                return Err(Error::Rejected(text.into()));
            }
            let mirror = row.insert(transaction).await?;
            let event = event(AuditKind::RemoteMirrorCreated, access, &mirror);
            audit::record(transaction, &access.caller, event).await?;
            let Some(credentials) = &url.credentials else {
                return Ok(mirror);
            };
            let encryptor = backend.keyring.encryptor(transaction).await?;
            let encrypted = encryptor.encrypt(credentials.expose(), &credentials_context(mirror.id))?;
            let mut row = mirror.into_active_model();
            row.credentials_encrypted = Set(Some(encrypted));
            Ok(row.update(transaction).await?)
        })
        .await
}

/// Updates the settings of a remote mirror. The URL cannot change.
///
/// # Errors
/// Returns `Error::NotFound` if the mirror does not exist.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    settings: MirrorSettings,
) -> Result<Model> {
    backend
        .database
        .transaction(async |transaction| {
            projects::lock(transaction, access.project.id).await?;
            let mirror = find(transaction, access, id).await?;
            let mut row = mirror.clone().into_active_model();
            for (column, value) in [
                (&mut row.enabled, settings.enabled),
                (&mut row.only_protected_branches, settings.only_protected_branches),
                (&mut row.keep_divergent_refs, settings.keep_divergent_refs),
            ] {
                if let Some(value) = value {
                    *column = Set(value);
                }
            }
            let changed = row_changes::update_if_changed(transaction, &mirror, row).await?;
            if changed != mirror {
                let event = event(AuditKind::RemoteMirrorChanged, access, &changed);
                let event = event.from(described(&mirror)).to(described(&changed));
                audit::record(transaction, &access.caller, event).await?;
            }
            Ok(changed)
        })
        .await
}

/// Deletes a remote mirror. The remote repository does not change.
///
/// # Errors
/// Returns `Error::NotFound` if the mirror does not exist. Returns `Error::PreconditionFailed` if its settings changed
/// after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let mirror = get(backend, access, id).await?;
    preconditions::check_unmodified_since(unmodified_since, mirror.updated_at)?;
    backend
        .database
        .transaction(async |transaction| {
            let deleted = Entity::delete_by_id(id).exec(transaction).await?;
            if deleted.rows_affected == 0 {
                return Ok(());
            }
            let event = event(AuditKind::RemoteMirrorDeleted, access, &mirror);
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

/// Schedules an update of a remote mirror for now.
///
/// # Errors
/// Returns `Error::NotFound` if the mirror does not exist, and `Error::Rejected` if it is disabled.
pub async fn sync(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            if !find(transaction, access, id).await?.enabled {
                return Err(Error::Rejected(
                    "Cannot proceed with the push mirroring. Please verify your mirror configuration.".into(),
                ));
            }
            schedule::schedule_now(transaction, id).await
        })
        .await
}

fn event(kind: AuditKind, access: &ProjectAccess, mirror: &Model) -> AuditEvent {
    // Paths and usernames can contain secrets.
    let origin =
        Url::parse(&mirror.url).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization());
    let target = AuditTarget::new("RemoteMirror", mirror.id, origin);
    AuditEvent::new(kind, access.audit_entity(), target)
}

/// Returns the settings for an audit event.
fn described(mirror: &Model) -> String {
    format!(
        "enabled: {}, only_protected_branches: {}, keep_divergent_refs: {}",
        mirror.enabled, mirror.only_protected_branches, mirror.keep_divergent_refs
    )
}

/// Returns the context to which the encryption of the credentials is bound.
fn credentials_context(mirror_id: i64) -> EncryptionContext {
    EncryptedColumn::RemoteMirrorCredentials.context(&[&mirror_id])
}

/// Returns the error for a URL that is not accepted.
fn url_error(rejected: RejectedRemote) -> Error {
    rejected_remote("url", rejected)
}
