//! Deploy keys: SSH keys that grant access to projects and belong to no user. Projects can share a key. A key
//! without projects is deleted, unless it is public.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use storage::database::Violation;
use storage::entities::access::projects_with_level;
use storage::entities::taken_fingerprints::{self, FingerprintOwner};
use storage::entities::{
    AccessLevel, deploy_keys as keys, now, project_deploy_keys as project_keys, projects, row_changes,
};

use crate::audit::{self, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::public_keys::ssh::{PublicKey, malformed};
use crate::kernel::query::{count_for_page, page_of};

/// Maximum deploy keys of a project.
const MAX_DEPLOY_KEYS: u64 = 100;

/// Prefix of attribute names in errors.
const ATTRIBUTES: &str = "deploy_key.";

/// A deploy key in a project.
#[derive(Debug, Clone)]
pub struct DeployKeyDetail {
    /// The key.
    pub key: keys::Model,
    /// Its settings in the project.
    pub project_key: project_keys::Model,
}

/// Returns a page of the deploy keys of all projects, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_all(backend: &Backend, page: &PageRequest) -> Result<Page<keys::Model>> {
    let query = keys::Entity::find().order_by_asc(keys::Column::Id);
    page_of(backend.database.read(), query, page).await
}

/// Returns a page of a project's deploy keys, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    page: &PageRequest,
) -> Result<Page<DeployKeyDetail>> {
    let db = backend.database.read();
    let query = project_keys::of_project(access.project.id);
    let all = query.clone().into_query();
    let rows = query
        .find_also_related(keys::Entity)
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    let total = count_for_page(db, page, rows.len(), all).await?;
    let details = rows.into_iter().filter_map(detail).collect();
    Ok(Page::new(page, details, total))
}

fn detail((project_key, key): (project_keys::Model, Option<keys::Model>)) -> Option<DeployKeyDetail> {
    Some(DeployKeyDetail {
        key: key?,
        project_key,
    })
}

/// Returns one deploy key of a project.
///
/// # Errors
/// Returns `Error::NotFound` if the project has no such key.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<DeployKeyDetail> {
    let found = find(backend.database.read(), access.project.id, id).await?;
    found.ok_or_else(|| Error::not_found(""))
}

async fn find(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Option<DeployKeyDetail>> {
    let row = project_keys::of_project(project_id)
        .filter(project_keys::Column::DeployKeyId.eq(id))
        .find_also_related(keys::Entity)
        .one(db)
        .await?;
    Ok(row.and_then(detail))
}

/// Adds a key to a project. A key that the project already has stays unchanged. A key that the caller can see
/// in another project is shared.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank, the key is malformed or already taken. Returns
/// `Error::Rejected` if the project has `MAX_DEPLOY_KEYS` deploy keys already.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    title: String,
    key: &str,
    can_push: bool,
) -> Result<DeployKeyDetail> {
    let key = PublicKey::parse(key).ok_or_else(|| malformed(ATTRIBUTES))?;
    check_title(&title)?;
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            lock_project(transaction, project_id).await?;
            let existing = keys::Entity::find()
                .filter(keys::Column::Fingerprint.eq(&key.fingerprint))
                .filter(keys::Column::Key.eq(&key.text))
                .lock_exclusive()
                .one(transaction)
                .await?;
            if let Some(existing) = existing {
                if let Some(detail) = find(transaction, project_id, existing.id).await? {
                    return Ok(detail);
                }
                if can_see(transaction, &access.caller, &existing).await? {
                    return add_to_project(transaction, access, existing, can_push).await;
                }
                return Err(already_taken());
            }
            let key = insert(transaction, title, key, false).await?;
            add_to_project(transaction, access, key, can_push).await
        })
        .await
}

/// Creates a public key, which every project can enable. It belongs to no project.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank, or the key is malformed or already taken.
pub async fn create_public(
    backend: &Backend,
    caller: &Caller,
    title: String,
    key: &str,
) -> Result<keys::Model> {
    let key = PublicKey::parse(key).ok_or_else(|| malformed(ATTRIBUTES))?;
    check_title(&title)?;
    backend
        .database
        .transaction(async |transaction| {
            let key = insert(transaction, title, key, true).await?;
            let event = AuditEvent::new(AuditKind::DeployKeyAdded, AuditEntity::instance(), target(&key));
            audit::record(transaction, caller, event.to("public")).await?;
            Ok(key)
        })
        .await
}

/// Enables an existing key for a project, without push access. A key that the project already has stays
/// unchanged.
///
/// # Errors
/// Returns `Error::NotFound` if the caller is not a member of a project with the key. Returns
/// `Error::Rejected` if the project has `MAX_DEPLOY_KEYS` deploy keys already.
pub async fn enable(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<keys::Model> {
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            lock_project(transaction, project_id).await?;
            if let Some(detail) = find(transaction, project_id, id).await? {
                return Ok(detail.key);
            }
            let key = keys::Entity::find_by_id(id)
                .lock_exclusive()
                .one(transaction)
                .await?;
            let key = key.ok_or_else(key_not_found)?;
            if !can_see(transaction, &access.caller, &key).await? {
                return Err(key_not_found());
            }
            Ok(add_to_project(transaction, access, key, false).await?.key)
        })
        .await
}

/// Updates the title of a key and its push access to the project. Only administrators change the title of a public key;
/// for other callers it stays unchanged.
///
/// # Errors
/// Returns `Error::NotFound` if the project has no such key. Returns `Error::InvalidAttributes` if the title
/// is blank. Returns `Error::InvalidParameters` if no attribute is given.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    title: Option<String>,
    can_push: Option<bool>,
) -> Result<DeployKeyDetail> {
    if title.is_none() && can_push.is_none() {
        return Err(Error::no_parameters(&["title", "can_push"]));
    }
    backend
        .database
        .transaction(async |transaction| {
            lock_project(transaction, access.project.id).await?;
            let found = find(transaction, access.project.id, id).await?;
            let DeployKeyDetail {
                mut key,
                mut project_key,
            } = found.ok_or_else(|| Error::not_found(""))?;
            let former_title = key.title.clone();
            if let Some(title) = &title {
                check_title(title)?;
            }
            if let Some(title) = title
                && (access.caller.is_admin() || !key.is_public)
            {
                let mut row = key.clone().into_active_model();
                row.title = Set(title);
                key = row_changes::update_if_changed(transaction, &key, row).await?;
            }
            let could_push = project_key.can_push;
            let mut row = project_key.clone().into_active_model();
            if let Some(can_push) = can_push {
                row.can_push = Set(can_push);
            }
            if key.title != former_title {
                row.updated_at = Set(now());
            }
            project_key = row_changes::update_if_changed(transaction, &project_key, row).await?;
            if (&former_title, could_push) != (&key.title, project_key.can_push) {
                let event = event(AuditKind::DeployKeyChanged, access, &key);
                let event = event
                    .from(push_text(could_push))
                    .to(push_text(project_key.can_push));
                audit::record(transaction, &access.caller, event).await?;
            }
            Ok(DeployKeyDetail { key, project_key })
        })
        .await
}

/// Removes a key from a project, and deletes it if no other project has it.
///
/// # Errors
/// Returns `Error::NotFound` if the project has no such key. Returns `Error::PreconditionFailed` if it
/// changed after `unmodified_since`.
pub async fn remove(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes changes to the projects of a key, so that the last removal deletes it.
            keys::Entity::find_by_id(id)
                .lock_exclusive()
                .one(transaction)
                .await?;
            let found = find(transaction, access.project.id, id).await?;
            let DeployKeyDetail { key, project_key } = found.ok_or_else(key_not_found)?;
            preconditions::check_unmodified_since(unmodified_since, project_key.updated_at)?;
            project_keys::Entity::delete_by_id(project_key.id)
                .exec(transaction)
                .await?;
            keys::remove_unused(transaction, vec![id]).await?;
            let event = event(AuditKind::DeployKeyRemoved, access, &key);
            audit::record(
                transaction,
                &access.caller,
                event.from(push_text(project_key.can_push)),
            )
            .await
        })
        .await
}

/// Removes all keys from a deleted project, and deletes keys that no other project has.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn remove_all(transaction: &DatabaseTransaction, project_id: i64) -> Result<()> {
    let of_project = project_keys::of_project(project_id)
        .select_only()
        .column(project_keys::Column::DeployKeyId);
    let key_ids: Vec<i64> = keys::Entity::find()
        .select_only()
        .column(keys::Column::Id)
        .filter(keys::Column::Id.in_subquery(of_project.into_query()))
        .order_by_asc(keys::Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(transaction)
        .await?;
    project_keys::Entity::delete_many()
        .filter(project_keys::Column::ProjectId.eq(project_id))
        .exec(transaction)
        .await?;
    Ok(keys::remove_unused(transaction, key_ids).await?)
}

/// Returns whether the key is public or the caller is a member of a project that has it. Administrators can see every
/// key.
async fn can_see(transaction: &DatabaseTransaction, caller: &Caller, key: &keys::Model) -> Result<bool> {
    if key.is_public || caller.is_admin() {
        return Ok(true);
    }
    let project_ids = project_keys::Entity::find()
        .select_only()
        .column(project_keys::Column::ProjectId)
        .filter(project_keys::Column::DeployKeyId.eq(key.id));
    let visible = projects::not_deleted()
        .filter(projects::Column::Id.in_subquery(project_ids.into_query()))
        .filter(projects_with_level(
            caller.signed_in()?.id,
            AccessLevel::Guest,
            now().date_naive(),
        ));
    Ok(visible.count(transaction).await? > 0)
}

/// Inserts a key. Fingerprints are unique among deploy keys and the keys of users.
async fn insert(
    transaction: &DatabaseTransaction,
    title: String,
    key: PublicKey,
    is_public: bool,
) -> Result<keys::Model> {
    let at = now();
    let row = keys::ActiveModel {
        title: Set(title),
        key: Set(key.text),
        fingerprint: Set(key.fingerprint),
        is_public: Set(is_public),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let key = row.insert(transaction).await.map_err(insert_error)?;
    let owner = FingerprintOwner::DeployKey(key.id);
    taken_fingerprints::take(transaction, &key.fingerprint, owner)
        .await
        .map_err(insert_error)?;
    Ok(key)
}

/// Adds a key to a project, which is locked.
async fn add_to_project(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    key: keys::Model,
    can_push: bool,
) -> Result<DeployKeyDetail> {
    let project_id = access.project.id;
    if project_keys::of_project(project_id).count(transaction).await? >= MAX_DEPLOY_KEYS {
        let text = format!("The maximum number of deploy keys ({MAX_DEPLOY_KEYS}) is reached");
        return Err(Error::Rejected(text.into()));
    }
    let at = now();
    let row = project_keys::ActiveModel {
        project_id: Set(project_id),
        deploy_key_id: Set(key.id),
        can_push: Set(can_push),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let project_key = row.insert(transaction).await?;
    let event = event(AuditKind::DeployKeyAdded, access, &key).to(push_text(can_push));
    audit::record(transaction, &access.caller, event).await?;
    Ok(DeployKeyDetail { key, project_key })
}

fn event(kind: AuditKind, access: &ProjectAccess, key: &keys::Model) -> AuditEvent {
    AuditEvent::new(kind, access.audit_entity(), target(key))
}

fn target(key: &keys::Model) -> AuditTarget {
    AuditTarget::new("DeployKey", key.id, format!("{} {}", key.title, key.fingerprint))
}

fn push_text(can_push: bool) -> &'static str {
    if can_push { "read and write" } else { "read" }
}

/// Locks the project, so that concurrent additions of keys wait.
async fn lock_project(transaction: &DatabaseTransaction, project_id: i64) -> Result<()> {
    let project = projects::lock(transaction, project_id).await?;
    project.map(drop).ok_or_else(|| Error::not_found("Project"))
}

fn check_title(title: &str) -> Result<()> {
    match title.trim().is_empty() {
        true => Err(Error::attribute(format!("{ATTRIBUTES}title"), "can't be blank")),
        false => Ok(()),
    }
}

/// Maps a database error of an insert.
fn insert_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => already_taken(),
        _ => error.into(),
    }
}

fn already_taken() -> Error {
    Error::attribute(format!("{ATTRIBUTES}fingerprint"), "has already been taken")
}

fn key_not_found() -> Error {
    Error::not_found("Deploy Key")
}
