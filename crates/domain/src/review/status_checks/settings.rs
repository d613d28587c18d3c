//! The status checks of projects: lists and changes. Each change locks the project.

use std::collections::{BTreeSet, HashMap};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder,
};
use storage::database::Violation;
use storage::entities::status_checks::{self, Model};
use storage::entities::{now, projects, protected_branches, row_changes, status_check_branches};
use url::Url;

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::code::jobs::auto_merge;
use crate::identity::access::ProjectAccess;
use crate::instance::settings::allows_local_requests;
use crate::integrations::webhooks::{RejectedUrl, WebhookTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::patch::Patch;
use crate::kernel::preconditions;
use crate::kernel::query::page_of;
use crate::kernel::settings::ALLOW_LOCAL_REQUESTS;
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};

/// Maximum number of status checks of a project. Each push to the source branch of a merge request sends a request to each.
pub const MAX_CHECKS: u64 = 20;

/// A status check with its branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCheckDetail {
    /// The status check.
    pub check: Model,
    /// The protected branches to which it applies, by ID; empty for all target branches.
    pub protected_branches: Vec<protected_branches::Model>,
}

/// Attributes of a status check. Absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct StatusCheckSettings {
    /// The name.
    pub name: Option<String>,
    /// The URL of the service.
    pub external_url: Option<String>,
    /// The key of the signatures. Null and the empty text remove it.
    pub shared_secret: Patch<Secret<String>>,
    /// IDs of protected branches of the project; empty for all target branches.
    pub protected_branch_ids: Option<Vec<i64>>,
}

/// Attributes after their validation.
struct CheckedSettings {
    name: Option<String>,
    external_url: Option<String>,
    branches: Option<BTreeSet<i64>>,
}

/// Returns a page of the status checks of a project, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    page: &PageRequest,
) -> Result<Page<StatusCheckDetail>> {
    let db = backend.database.read();
    let found = page_of(db, status_checks::of_project(access.project.id), page).await?;
    let mut branches = branches_of(db, access.project.id).await?;
    Ok(found.map(|check| StatusCheckDetail {
        protected_branches: branches.remove(&check.id).unwrap_or_default(),
        check,
    }))
}

/// Returns the protected branches of the checks of a project, by the ID of the check.
async fn branches_of(
    db: &impl ConnectionTrait,
    project_id: i64,
) -> Result<HashMap<i64, Vec<protected_branches::Model>>> {
    let branches = protected_branches::Entity::find()
        .filter(protected_branches::Column::ProjectId.eq(project_id))
        .order_by_asc(protected_branches::Column::Id);
    let selected = status_check_branches::of_project(project_id).all(db).await?;
    let mut grouped: HashMap<i64, Vec<protected_branches::Model>> = HashMap::new();
    if selected.is_empty() {
        return Ok(grouped);
    }
    for branch in branches.all(db).await? {
        for link in selected
            .iter()
            .filter(|link| link.protected_branch_id == branch.id)
        {
            let of_check = grouped.entry(link.status_check_id).or_default();
            of_check.push(branch.clone());
        }
    }
    Ok(grouped)
}

async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<StatusCheckDetail> {
    let found = status_checks::of_project(access.project.id)
        .filter(status_checks::Column::Id.eq(id))
        .one(db)
        .await?;
    let check = found.ok_or_else(|| Error::not_found(""))?;
    let mut branches = branches_of(db, access.project.id).await?;
    Ok(StatusCheckDetail {
        protected_branches: branches.remove(&check.id).unwrap_or_default(),
        check,
    })
}

/// Creates a status check of a project.
///
/// # Errors
/// Returns `Unprocessable` if an attribute is invalid or taken, or if the project has [`MAX_CHECKS`] status checks already.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    settings: StatusCheckSettings,
) -> Result<StatusCheckDetail> {
    let checked = settings.check(backend).await?;
    let name = checked.name.ok_or_else(|| invalid("name is missing"))?;
    let external_url = checked
        .external_url
        .ok_or_else(|| invalid("external_url is missing"))?;
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, access).await?;
            if status_checks::of_project(project_id).count(transaction).await? >= MAX_CHECKS {
                let text = format!("Maximum number of external status checks ({MAX_CHECKS}) exceeded");
                return Err(Error::Unprocessable(text.into()));
            }
            let at = now();
            let row = status_checks::ActiveModel {
                project_id: Set(project_id),
                name: Set(name.clone()),
                external_url: Set(external_url.clone()),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let check = row.insert(transaction).await.map_err(write_error)?;
            if let Patch::Set(secret) = &settings.shared_secret
                && !secret.expose().is_empty()
            {
                let encryptor = backend.keyring.encryptor(transaction).await?;
                let encrypted = encryptor.encrypt(secret.expose(), &secret_context(check.id))?;
                let mut row = check.clone().into_active_model();
                row.shared_secret_encrypted = Set(Some(encrypted));
                row.update(transaction).await?;
            }
            if let Some(branches) = &checked.branches {
                replace_branches(transaction, access, check.id, branches).await?;
            }
            let created = find(transaction, access, check.id).await?;
            let event = event(AuditKind::StatusCheckCreated, access, &created);
            audit::record(transaction, &access.caller, event.to(described(&created))).await?;
            Ok(created)
        })
        .await
}

/// Updates a status check of a project.
///
/// # Errors
/// Returns `NotFound` if the project has no such status check, and `Unprocessable` if an attribute is invalid or taken.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    settings: StatusCheckSettings,
) -> Result<StatusCheckDetail> {
    let checked = settings.check(backend).await?;
    backend
        .database
        .transaction(async |transaction| {
            let project = lock(transaction, access).await?;
            let former = find(transaction, access, id).await?;
            let mut row = former.check.clone().into_active_model();
            if let Some(name) = &checked.name {
                row.name = Set(name.clone());
            }
            if let Some(url) = &checked.external_url {
                row.external_url = Set(url.clone());
            }
            match &settings.shared_secret {
                Patch::Keep => {}
                Patch::Set(secret) if !secret.expose().is_empty() => {
                    // A new ciphertext of the same secret would look like a change.
                    if !is_stored(backend, &former.check, secret) {
                        let encryptor = backend.keyring.encryptor(transaction).await?;
                        let encrypted = encryptor.encrypt(secret.expose(), &secret_context(id))?;
                        row.shared_secret_encrypted = Set(Some(encrypted));
                    }
                }
                Patch::Clear | Patch::Set(_) => row.shared_secret_encrypted = Set(None),
            }
            let branches = former.protected_branches.iter().map(|branch| branch.id);
            let branches: BTreeSet<i64> = branches.collect();
            if let Some(new) = checked.branches.as_ref().filter(|new| **new != branches) {
                replace_branches(transaction, access, id, new).await?;
                row.updated_at = Set(now());
                auto_merge::enqueue_into(transaction, project.id).await?;
            }
            row_changes::update_if_changed(transaction, &former.check, row)
                .await
                .map_err(write_error)?;
            let changed = find(transaction, access, id).await?;
            if changed != former {
                let event = event(AuditKind::StatusCheckChanged, access, &changed);
                let event = event.from(described(&former)).to(described(&changed));
                audit::record(transaction, &access.caller, event).await?;
            }
            Ok(changed)
        })
        .await
}

/// Deletes a status check of a project, with the statuses of merge requests.
///
/// # Errors
/// Returns `NotFound` if the project has no such status check, and `PreconditionFailed` if it changed after
/// `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let project = lock(transaction, access).await?;
            let found = find(transaction, access, id).await?;
            preconditions::check_unmodified_since(unmodified_since, found.check.updated_at)?;
            status_checks::Entity::delete_by_id(id).exec(transaction).await?;
            auto_merge::enqueue_into(transaction, project.id).await?;
            let event = event(AuditKind::StatusCheckDeleted, access, &found);
            audit::record(transaction, &access.caller, event.from(described(&found))).await
        })
        .await
}

/// Returns the context to which the encryption of a shared secret is bound.
pub(crate) fn secret_context(check_id: i64) -> EncryptionContext {
    EncryptedColumn::StatusCheckSharedSecret.context(&[&check_id])
}

impl StatusCheckSettings {
    /// Validates the attributes that do not depend on the database.
    async fn check(&self, backend: &Backend) -> Result<CheckedSettings> {
        let name = self.name.as_deref().map(|name| match name.trim() {
            "" => Err(invalid("name can't be blank")),
            name => Ok(name.to_owned()),
        });
        let external_url = match self.external_url.as_deref() {
            Some(url) => Some(check_url(url.trim(), allows_local_requests(backend).await?)?),
            None => None,
        };
        Ok(CheckedSettings {
            name: name.transpose()?,
            external_url,
            branches: self
                .protected_branch_ids
                .as_ref()
                .map(|ids| ids.iter().copied().collect()),
        })
    }
}

/// Checks the URL of a service as those of webhooks. Credentials are refused, because the URL is visible to members.
fn check_url(url: &str, local: bool) -> Result<String> {
    let target = WebhookTarget::parse(url, local).map_err(|rejected| {
        let error = invalid("external_url is invalid");
        match rejected {
            RejectedUrl::Local => error.because_of(ALLOW_LOCAL_REQUESTS),
            RejectedUrl::Invalid | RejectedUrl::Reserved => error,
        }
    })?;
    let has_user = Url::parse(&target.shown).map_or(true, |url| !url.username().is_empty());
    match has_user || target.password.is_some() {
        true => Err(invalid("external_url must not contain a username or password")),
        false => Ok(target.shown),
    }
}

fn invalid(text: &'static str) -> Error {
    Error::Unprocessable(text.into())
}

/// Maps a database error of an insert or update.
fn write_error(error: sea_orm::DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(name)) if name.contains("external_url") => {
            invalid("external_url has already been taken")
        }
        Some(Violation::Unique(_)) => invalid("name has already been taken"),
        _ => error.into(),
    }
}

async fn lock(transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<projects::Model> {
    let locked = projects::lock_for_insert(transaction, access.project.id).await?;
    locked.ok_or_else(|| Error::not_found("Project"))
}

/// Replaces the branches of a status check.
async fn replace_branches(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    id: i64,
    branches: &BTreeSet<i64>,
) -> Result<()> {
    use status_check_branches::{ActiveModel, Column, Entity};
    let known = protected_branches::Entity::find()
        .filter(protected_branches::Column::ProjectId.eq(access.project.id))
        .filter(protected_branches::Column::Id.is_in(branches.iter().copied()));
    // An ID that is ignored would make the check apply to all branches.
    let is_known = usize::try_from(known.count(transaction).await?) == Ok(branches.len());
    if !is_known {
        return Err(invalid(
            "protected_branch_ids must be IDs of protected branches of the project",
        ));
    }
    Entity::delete_many()
        .filter(Column::StatusCheckId.eq(id))
        .exec(transaction)
        .await?;
    if branches.is_empty() {
        return Ok(());
    }
    let rows = branches.iter().map(|branch| ActiveModel {
        status_check_id: Set(id),
        protected_branch_id: Set(*branch),
        ..Default::default()
    });
    let inserted = Entity::insert_many(rows)
        .exec_without_returning(transaction)
        .await;
    inserted.map(drop).map_err(|error| match Violation::of(&error) {
        Some(Violation::ForeignKey(_)) => invalid("A protected branch of the status check was deleted"),
        _ => error.into(),
    })
}

fn is_stored(backend: &Backend, check: &Model, secret: &Secret<String>) -> bool {
    let stored = check.shared_secret_encrypted.as_deref();
    let decrypted = stored.and_then(|stored| backend.keyring.decrypt(stored, &secret_context(check.id)).ok());
    decrypted.is_some_and(|decrypted| decrypted.expose() == secret.expose())
}

fn event(kind: AuditKind, access: &ProjectAccess, detail: &StatusCheckDetail) -> AuditEvent {
    let target = AuditTarget::new("ExternalStatusCheck", detail.check.id, detail.check.name.clone());
    AuditEvent::new(kind, access.audit_entity(), target)
}

/// Returns the settings for an audit event. Paths and queries of URLs can contain secrets.
fn described(detail: &StatusCheckDetail) -> String {
    let check = &detail.check;
    let origin = Url::parse(&check.external_url);
    let origin = origin.map_or_else(|_| String::new(), |url| url.origin().ascii_serialization());
    let names: Vec<&str> = detail
        .protected_branches
        .iter()
        .map(|branch| branch.name.as_str())
        .collect();
    let branches = match names.is_empty() {
        true => "all".to_owned(),
        false => names.join(" and "),
    };
    let is_signed = check.shared_secret_encrypted.is_some();
    format!(
        "{}: {origin}, signed: {is_signed}, branches: {branches}",
        check.name
    )
}
