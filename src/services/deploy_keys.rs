//! Deploy keys: SSH keys that are good for projects and belong to no user (specification 2.9 and 4.8). Projects share a key;
//! one that no project has is gone.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use storage::database::Violation;
use storage::entities::access::projects_with_level;
use storage::entities::taken_fingerprints::{self, Holder};
use storage::entities::{AccessLevel, deploy_keys as keys, now, project_deploy_keys as places, projects};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::authentication::Caller;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::{bounded_count, page_of};
use crate::services::preconditions;
use crate::services::ssh_keys::{PublicKey, malformed};

/// How many deploy keys a project may have.
const MOST: u64 = 100;

/// What the attributes of a key are called in faults.
const ATTRIBUTES: &str = "deploy_key.";

/// A deploy key in a project.
#[derive(Debug, Clone)]
pub struct Row {
    /// The key.
    pub key: keys::Model,
    /// What it is in the project.
    pub place: places::Model,
}

/// A page of the deploy keys of all projects, the oldest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn list_all(backend: &Backend, page: &PageRequest) -> Result<Page<keys::Model>> {
    let wanted = keys::Entity::find().order_by_asc(keys::Column::Id);
    page_of(backend.database.read(), wanted, page).await
}

/// A page of a project's deploy keys, the oldest first.
///
/// # Errors
/// Whatever the database reports.
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

/// One deploy key of a project.
///
/// # Errors
/// 404.
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

/// Gives a project a key. One that it has stays as it is; one that the caller knows from another project is shared.
///
/// # Errors
/// 400 for a blank title, for what is no key, for a key that somebody has, and for more than a project may have.
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
            let holder = Holder::DeployKey(made.id);
            taken_fingerprints::take(transaction, &made.fingerprint, holder)
                .await
                .map_err(refused)?;
            join(transaction, project_id, made, can_push).await
        })
        .await
}

/// Shares a key with a project, which may read with it. One that the project has stays as it is.
///
/// # Errors
/// 404 for a key of projects that the caller is no member of, and 400 for more keys than a project may have.
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

/// Changes the title of a key, and whether it may push to the project.
///
/// # Errors
/// 404, and 400 for a blank title and when nothing is to change.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    title: Option<String>,
    can_push: Option<bool>,
) -> Result<Row> {
    if title.is_none() && can_push.is_none() {
        return Err(Error::nothing_sent(&["title", "can_push"]));
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

/// Takes a key away from a project, and the key itself with it when no other project has it.
///
/// # Errors
/// 404, and 412 when it changed after the caller's date.
pub async fn remove(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            // Whoever takes or shares the same key waits, so that the last one is the last.
            keys::Entity::find_by_id(id)
                .lock_exclusive()
                .one(transaction)
                .await?;
            let found = find(transaction, access.project.id, id).await?;
            let place = found.ok_or_else(missing)?.place;
            preconditions::unmodified_since(unmodified_since, place.updated_at)?;
            places::Entity::delete_by_id(place.id).exec(transaction).await?;
            keys::remove_unused(transaction, vec![id]).await?;
            Ok(())
        })
        .await
}

/// Takes all keys away from a project that goes, and those keys with it that no other project has.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn remove_all(
    transaction: &DatabaseTransaction,
    project_id: i64,
) -> Result<()> {
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

/// Whether the caller is a member of a project that has the key; administrators know all.
async fn is_known(transaction: &DatabaseTransaction, caller: &Caller, id: i64) -> Result<bool> {
    if caller.is_admin() {
        return Ok(true);
    }
    let having = places::Entity::find()
        .select_only()
        .column(places::Column::ProjectId)
        .filter(places::Column::DeployKeyId.eq(id));
    let known = projects::live()
        .filter(projects::Column::Id.in_subquery(having.into_query()))
        .filter(projects_with_level(
            caller.signed_in()?.id,
            AccessLevel::Guest,
            now().date_naive(),
        ));
    Ok(known.count(transaction).await? > 0)
}

/// Gives a project a key that it does not have; the project is locked.
async fn join(
    transaction: &DatabaseTransaction,
    project_id: i64,
    key: keys::Model,
    can_push: bool,
) -> Result<Row> {
    if places::of_project(project_id).count(transaction).await? >= MOST {
        let text = format!("The maximum number of deploy keys ({MOST}) is reached");
        return Err(Error::Refused(text.into()));
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

/// Others who give the project keys wait until the transaction ends.
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

/// Why a key was not written.
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
