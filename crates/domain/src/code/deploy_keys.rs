//! Deploy keys: SSH keys that grant access to projects and belong to no user. Projects can share a key. A key
//! without projects is deleted.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use storage::database::Violation;
use storage::entities::access::projects_with_level;
use storage::entities::taken_fingerprints::{self, FingerprintOwner};
use storage::entities::{AccessLevel, deploy_keys as keys, now, project_deploy_keys as places, projects};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::query::{bounded_count, page_of};
use crate::kernel::ssh_keys::{PublicKey, malformed};

/// Maximum deploy keys of a project.
const MOST: u64 = 100;

/// Prefix of attribute names in errors.
const ATTRIBUTES: &str = "deploy_key.";

/// A deploy key in a project.
#[derive(Debug, Clone)]
pub struct Row {
    /// The key.
    pub key: keys::Model,
    /// Its settings in the project.
    pub place: places::Model,
}

/// Returns a page of the deploy keys of all projects, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_all(backend: &Backend, page: &PageRequest) -> Result<Page<keys::Model>> {
    let wanted = keys::Entity::find().order_by_asc(keys::Column::Id);
    page_of(backend.database.read(), wanted, page).await
}

/// Returns a page of a project's deploy keys, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Row>> {
    let db = backend.database.read();
    let wanted = places::of_project(access.project.id);
    let total = bounded_count(db, wanted.clone().into_query()).await?;
    let found = wanted
        .find_also_related(keys::Entity)
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    let rows = found.into_iter().filter_map(row).collect();
    Ok(Page::new(page, rows, total))
}

fn row((place, key): (places::Model, Option<keys::Model>)) -> Option<Row> {
    Some(Row { key: key?, place })
}

/// Returns one deploy key of a project.
///
/// # Errors
/// Returns `Error::NotFound` if the project has no such key.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Row> {
    let found = find(backend.database.read(), access.project.id, id).await?;
    found.ok_or_else(|| Error::not_found(""))
}

async fn find(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Option<Row>> {
    let found = places::of_project(project_id)
        .filter(places::Column::DeployKeyId.eq(id))
        .find_also_related(keys::Entity)
        .one(db)
        .await?;
    Ok(found.and_then(row))
}

/// Adds a key to a project. A key that the project already has stays unchanged. A key that the caller can see
/// in another project is shared.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank, the key is malformed or already taken. Returns
/// `Error::Rejected` if the project has `MOST` deploy keys already.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    title: String,
    key: &str,
    can_push: bool,
) -> Result<Row> {
    let key = PublicKey::parse(key).ok_or_else(|| malformed(ATTRIBUTES))?;
    check_title(&title)?;
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, project_id).await?;
            let same = keys::Entity::find()
                .filter(keys::Column::Fingerprint.eq(&key.fingerprint))
                .filter(keys::Column::Key.eq(&key.text))
                .lock_exclusive()
                .one(transaction)
                .await?;
            if let Some(same) = same {
                if let Some(there) = find(transaction, project_id, same.id).await? {
                    return Ok(there);
                }
                if is_known(transaction, &access.caller, same.id).await? {
                    return join(transaction, project_id, same, can_push).await;
                }
                return Err(taken());
            }
            let at = now();
            let row = keys::ActiveModel {
                title: Set(title),
                key: Set(key.text),
                fingerprint: Set(key.fingerprint),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let made = row.insert(transaction).await.map_err(refused)?;
            let holder = FingerprintOwner::DeployKey(made.id);
            taken_fingerprints::take(transaction, &made.fingerprint, holder)
                .await
                .map_err(refused)?;
            join(transaction, project_id, made, can_push).await
        })
        .await
}

/// Enables an existing key for a project, without push access. A key that the project already has stays
/// unchanged.
///
/// # Errors
/// Returns `Error::NotFound` if the caller is not a member of a project with the key. Returns
/// `Error::Rejected` if the project has `MOST` deploy keys already.
pub async fn enable(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<keys::Model> {
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, project_id).await?;
            if let Some(there) = find(transaction, project_id, id).await? {
                return Ok(there.key);
            }
            let key = keys::Entity::find_by_id(id)
                .lock_exclusive()
                .one(transaction)
                .await?;
            let key = key.ok_or_else(missing)?;
            if !is_known(transaction, &access.caller, id).await? {
                return Err(missing());
            }
            Ok(join(transaction, project_id, key, false).await?.key)
        })
        .await
}

/// Updates the title of a key and its push access to the project.
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
) -> Result<Row> {
    if title.is_none() && can_push.is_none() {
        return Err(Error::no_parameters(&["title", "can_push"]));
    }
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, access.project.id).await?;
            let found = find(transaction, access.project.id, id).await?;
            let Row { mut key, mut place } = found.ok_or_else(|| Error::not_found(""))?;
            if let Some(title) = title {
                check_title(&title)?;
                let mut row = key.into_active_model();
                (row.title, row.updated_at) = (Set(title), Set(now()));
                key = row.update(transaction).await?;
            }
            let mut row = place.into_active_model();
            if let Some(can_push) = can_push {
                row.can_push = Set(can_push);
            }
            row.updated_at = Set(now());
            place = row.update(transaction).await?;
            Ok(Row { key, place })
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
            let place = found.ok_or_else(missing)?.place;
            preconditions::check_unmodified_since(unmodified_since, place.updated_at)?;
            places::Entity::delete_by_id(place.id).exec(transaction).await?;
            keys::remove_unused(transaction, vec![id]).await?;
            Ok(())
        })
        .await
}

/// Removes all keys from a deleted project, and deletes keys that no other project has.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn remove_all(transaction: &DatabaseTransaction, project_id: i64) -> Result<()> {
    let of_project = places::of_project(project_id)
        .select_only()
        .column(places::Column::DeployKeyId);
    let had: Vec<i64> = keys::Entity::find()
        .select_only()
        .column(keys::Column::Id)
        .filter(keys::Column::Id.in_subquery(of_project.into_query()))
        .order_by_asc(keys::Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(transaction)
        .await?;
    places::Entity::delete_many()
        .filter(places::Column::ProjectId.eq(project_id))
        .exec(transaction)
        .await?;
    Ok(keys::remove_unused(transaction, had).await?)
}

/// Returns whether the caller is a member of a project that has the key. Administrators can see every key.
async fn is_known(transaction: &DatabaseTransaction, caller: &Caller, id: i64) -> Result<bool> {
    if caller.is_admin() {
        return Ok(true);
    }
    let having = places::Entity::find()
        .select_only()
        .column(places::Column::ProjectId)
        .filter(places::Column::DeployKeyId.eq(id));
    let known = projects::not_deleted()
        .filter(projects::Column::Id.in_subquery(having.into_query()))
        .filter(projects_with_level(
            caller.signed_in()?.id,
            AccessLevel::Guest,
            now().date_naive(),
        ));
    Ok(known.count(transaction).await? > 0)
}

/// Adds a key to a project, which is locked.
async fn join(
    transaction: &DatabaseTransaction,
    project_id: i64,
    key: keys::Model,
    can_push: bool,
) -> Result<Row> {
    if places::of_project(project_id).count(transaction).await? >= MOST {
        let text = format!("The maximum number of deploy keys ({MOST}) is reached");
        return Err(Error::Rejected(text.into()));
    }
    let at = now();
    let row = places::ActiveModel {
        project_id: Set(project_id),
        deploy_key_id: Set(key.id),
        can_push: Set(can_push),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let place = row.insert(transaction).await?;
    Ok(Row { key, place })
}

/// Locks the project, so that concurrent additions of keys wait.
async fn lock(transaction: &DatabaseTransaction, project_id: i64) -> Result<()> {
    let there = projects::lock(transaction, project_id).await?;
    there.map(drop).ok_or_else(|| Error::not_found("Project"))
}

fn check_title(title: &str) -> Result<()> {
    match title.trim().is_empty() {
        true => Err(Error::attribute(format!("{ATTRIBUTES}title"), "can't be blank")),
        false => Ok(()),
    }
}

/// Maps a database error of an insert.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => taken(),
        _ => error.into(),
    }
}

fn taken() -> Error {
    Error::attribute(format!("{ATTRIBUTES}fingerprint"), "has already been taken")
}

fn missing() -> Error {
    Error::not_found("Deploy Key")
}
