//! Group imports.
//!
//! A request stores the archive in the object storage and creates the group and a job. The job reads and
//! validates the whole archive ([`opening`]). It then creates all subgroups and the contents of the top group
//! in one transaction ([`planting`]). Each subgroup's contents follow in a separate transaction
//! ([`entering`]). The database records the completed groups, so that a killed import resumes where it
//! stopped.

mod archive;
mod boards;
mod checks;
mod create_groups;
mod epics;
mod importer;
mod labels_and_milestones;
mod members;
mod record_reader;
mod report;
mod tree;

use std::fs::File as StdFile;
use std::sync::Arc;

use chrono::TimeDelta;
use futures_util::TryStreamExt;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter,
};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

pub use report::{ImportProgress, ImportReport, ImportStatus, ItemKind, UnmappedItem};

use storage::database::Violation;
use storage::entities::group_imports::{self, ActiveModel, Column, Entity, ImportState, Model};
use storage::entities::{imported_groups, namespaces, now, users};
use storage::jobs::{self, Job, JobAttempt, JobFailure};

use crate::accounts::uploads::UploadedFile;
use crate::identity::access::GroupAccess;
use crate::identity::authentication;
use crate::integrations::object_storage::SweepProgress;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::kernel::rate_limit::{self, Quota};
use crate::spaces::groups::{self, GroupSettings, NewGroup};
use crate::transfers::imports::archive::{ImportArchive, fault};
use crate::transfers::imports::importer::Importer;
use crate::transfers::jobs::import_group::ImportGroup;
use crate::transfers::stored_archives::{MAX_SWEPT, secret, thread_error};

/// Age from which an archive without a group is removed. Younger ones may belong to a request in progress.
const ORPHAN_AGE: TimeDelta = TimeDelta::hours(24);
/// First bytes of a gzip file.
const GZIP_SIGNATURE: [u8; 3] = [0x1F, 0x8B, 0x08];
/// Import quota of a user.
const IMPORT_QUOTA: Quota = Quota {
    action: "group_import",
    most: 6,
    within: TimeDelta::minutes(1),
};
/// Error for a second import of a user at the same time.
const IMPORT_IN_PROGRESS: &str = "You already have an import in progress; wait until it finishes";
/// The constraint that allows one import per user.
const IMPORT_CONSTRAINT: &str = "uq_group_imports_user_id";
/// Error for an import that repeatedly failed because of the server.
const IMPORT_FAILED: &str = "The import failed because of an internal error; see the server log";

/// Attributes of the group of a new import.
#[derive(Debug)]
pub struct NewImport {
    /// Name of the group.
    pub name: String,
    /// Last part of its path.
    pub path: String,
    /// ID of the parent group.
    pub parent_id: Option<i64>,
}

/// Creates a group and starts the import of an archive into it.
///
/// # Errors
/// Returns `Error::Forbidden` or `Error::NotFound` like the creation of a group. Returns `Error::Rejected` or
/// `Error::InvalidAttributes` if the name, path or archive is invalid. Returns `Error::RateLimited` if the
/// quota is exceeded. Returns `Error::Conflict` if another import of the caller is running.
pub async fn create(
    backend: &Backend,
    caller: &Caller,
    new: NewImport,
    mut archive: UploadedFile,
) -> Result<()> {
    let user_id = caller.signed_in()?.id;
    rate_limit::consume(backend, user_id, IMPORT_QUOTA).await?;
    let new = NewGroup {
        name: new.name,
        path: new.path,
        parent_id: new.parent_id,
        visibility: None,
        settings: GroupSettings::default(),
    };
    let admitted = groups::check(backend, caller, new)
        .await?
        .with_imported_visibility(caller);
    check_gzip(&mut archive).await?;
    // Checked before the archive is stored. Concurrent starts are prevented when the group is created.
    if group_imports::is_importing(backend.database.read(), user_id).await? {
        return Err(Error::Conflict(IMPORT_IN_PROGRESS.into()));
    }
    let at = now();
    let row = ActiveModel {
        user_id: Set(Some(user_id)),
        secret: Set(Some(secret())),
        state: Set(ImportState::Scheduled),
        report: Set(serialize_report(&ImportReport::default())?),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let row = row.insert(backend.database.write()).await?;
    let stored = async {
        backend.objects.put(&key(&row)?, archive.file).await?;
        groups::insert_with(backend, caller, admitted, async |transaction, group| {
            let mine = ActiveModel {
                id: Set(row.id),
                namespace_id: Set(Some(group.id)),
                ..Default::default()
            };
            mine.update(transaction).await.map_err(map_insert_error)?;
            let job = ImportGroup { import_id: row.id };
            jobs::enqueue(transaction, &job).await.map_err(Error::internal)
        })
        .await
    };
    match stored.await {
        Ok(_) => Ok(()),
        Err(error) => {
            discard(backend, &row).await?;
            Entity::delete_by_id(row.id)
                .exec(backend.database.write())
                .await?;
            Err(error)
        }
    }
}

fn map_insert_error(error: DbErr) -> Error {
    match Violation::is_unique(&error, IMPORT_CONSTRAINT) {
        true => Error::Conflict(IMPORT_IN_PROGRESS.into()),
        false => error.into(),
    }
}

async fn check_gzip(archive: &mut UploadedFile) -> Result<()> {
    let mut start = Vec::new();
    (&mut archive.file)
        .take(GZIP_SIGNATURE.len() as u64)
        .read_to_end(&mut start)
        .await
        .map_err(Error::internal)?;
    archive.file.rewind().await.map_err(Error::internal)?;
    match start == GZIP_SIGNATURE {
        true => Ok(()),
        false => Err(Error::attribute(
            "file",
            "must be an archive that is compressed with gzip",
        )),
    }
}

/// Returns the progress of the import that created a group.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn status(backend: &Backend, access: &GroupAccess) -> Result<ImportStatus> {
    let db = backend.database.read();
    let group_id = access.group.id;
    let import = match group_imports::of_group(db, group_id).await? {
        None => None,
        Some(row) => Some(ImportProgress {
            state: row.state,
            report: read_report(&row)?,
            entered: imported_groups::Entity::find()
                .filter(imported_groups::Column::ImportId.eq(row.id))
                .filter(imported_groups::Column::EnteredAt.is_not_null())
                .count(db)
                .await?,
            error: row.error,
            created_at: row.created_at,
        }),
    };
    Ok(ImportStatus { group_id, import })
}

/// Runs or resumes an import. Errors of the archive or the caller end it permanently.
///
/// # Errors
/// Returns errors of the server, after which the import can be retried.
pub async fn run(backend: &Backend, import_id: i64) -> Result<()> {
    let found = Entity::find_by_id(import_id)
        .one(backend.database.write())
        .await?;
    let Some(row) = found else { return Ok(()) };
    if matches!(row.state, ImportState::Scheduled | ImportState::Started) && row.namespace_id.is_some() {
        set_state(backend.database.write(), import_id, ImportState::Started, None).await?;
        let (state, why) = match execute(backend, &row).await {
            Ok(()) => (ImportState::Finished, None),
            Err(error) => match checks::text_of(&error, backend.stored_reason) {
                Some(text) => (ImportState::Failed, Some(text)),
                None => return Err(error),
            },
        };
        set_state(backend.database.write(), import_id, state, why).await?;
    }
    discard(backend, &row).await
}

/// Ends an import that is not retried.
///
/// # Errors
/// Returns an error if the database or the storage fails.
pub async fn mark_failed(backend: &Backend, import_id: i64) -> Result<()> {
    let db = backend.database.write();
    let Some(row) = Entity::find_by_id(import_id).one(db).await? else {
        return Ok(());
    };
    set_state(db, import_id, ImportState::Failed, Some(IMPORT_FAILED.to_owned())).await?;
    discard(backend, &row).await
}

async fn set_state(
    db: &impl ConnectionTrait,
    id: i64,
    state: ImportState,
    error: Option<String>,
) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::State, Expr::value(state))
        .col_expr(Column::Error, Expr::value(error))
        .col_expr(Column::UpdatedAt, Expr::value(now()))
        .filter(Column::Id.eq(id))
        .exec(db)
        .await?;
    Ok(())
}

async fn execute(backend: &Backend, row: &Model) -> Result<()> {
    let access = importer(backend, row).await?;
    let opened = open(backend, row).await?;
    let report = read_report(row)?;
    let mut entering = Importer::new(backend, access, row.id, opened, report).await?;
    entering.map_users().await?;
    entering.create_groups().await?;
    entering.run().await
}

/// Returns the access of the importing user, who has to be an Owner of the group.
async fn importer(backend: &Backend, row: &Model) -> Result<GroupAccess> {
    let user_missing = || fault("The importing user no longer exists");
    let user = users::not_deleted().filter(users::Column::Id.eq(row.user_id.ok_or_else(user_missing)?));
    let user = user
        .one(backend.database.read())
        .await?
        .ok_or_else(user_missing)?;
    authentication::check_account_active(&user)?;
    let group_id = row.namespace_id.unwrap_or_default().to_string();
    let access = GroupAccess::find(backend, Caller::user(user), &group_id).await?;
    match access.has_role(Role::Owner) {
        true => Ok(access),
        false => Err(fault("The importing user is no longer an Owner of the group")),
    }
}

/// Downloads the archive and reads it.
async fn open(backend: &Backend, row: &Model) -> Result<ImportArchive> {
    let key = key(row)?;
    let size = backend.objects.size(&key).await?;
    let size = size.ok_or_else(|| thread_error("the archive is not in the object storage"))?;
    let mut archive = tokio::fs::File::from_std(spool(backend)?);
    let mut pieces = backend.objects.read(&key, 0, size);
    while let Some(piece) = pieces.try_next().await.map_err(thread_error)? {
        archive.write_all(&piece).await.map_err(thread_error)?;
    }
    archive.flush().await.map_err(thread_error)?;
    archive.rewind().await.map_err(thread_error)?;
    let (archive, spool) = (archive.into_std().await, spool(backend)?);
    let validator = Arc::clone(&backend.record_validator);
    tokio::task::spawn_blocking(move || archive::open(archive, spool, &*validator))
        .await
        .map_err(thread_error)?
}

fn spool(backend: &Backend) -> Result<StdFile> {
    backend.objects.spool().map_err(thread_error)
}

/// Ends imports whose job failed permanently without ending them, for example because its server stopped in
/// the last attempt. Also removes unneeded archives. Returns the number of both. An archive that cannot be deleted
/// remains for the next sweep.
///
/// # Errors
/// Returns an error if the database fails, or if an archive could not be deleted.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let db = backend.database.write();
    let lost = group_imports::without_job(db, ImportGroup::KIND, MAX_SWEPT).await?;
    let mut progress = SweepProgress::new();
    for row in &lost {
        if !progress.record(mark_failed(backend, row.id).await) {
            return progress.finish();
        }
    }
    let over = group_imports::with_obsolete_archive(db, now() - ORPHAN_AGE, MAX_SWEPT).await?;
    for row in &over {
        if !progress.record(remove_obsolete_archive(backend, row).await) {
            break;
        }
    }
    progress.finish()
}

/// Removes an archive, and its import if the group was deleted.
async fn remove_obsolete_archive(backend: &Backend, row: &Model) -> Result<()> {
    discard(backend, row).await?;
    if row.namespace_id.is_none() {
        Entity::delete_by_id(row.id)
            .exec(backend.database.write())
            .await?;
    }
    Ok(())
}

/// Removes the archive from which a deleted group was to be filled.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn delete_archive(backend: &Backend, group_id: i64) -> Result<()> {
    let db = backend.database.write();
    let Some(row) = group_imports::of_group(db, group_id).await? else {
        return Ok(());
    };
    discard(backend, &row).await?;
    Entity::delete_by_id(row.id).exec(db).await?;
    Ok(())
}

/// Removes an archive and then the key that refers to it.
async fn discard(backend: &Backend, row: &Model) -> Result<()> {
    if row.secret.is_some() {
        backend.objects.discard(&key(row)?).await?;
        forget_archive(backend, row).await?;
    }
    Ok(())
}

/// Removes the key that refers to a removed archive.
async fn forget_archive(backend: &Backend, row: &Model) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::Secret, Expr::value(None::<String>))
        .filter(Column::Id.eq(row.id))
        .exec(backend.database.write())
        .await?;
    Ok(())
}

fn key(row: &Model) -> Result<String> {
    let secret = row.secret.as_deref();
    let secret = secret.ok_or_else(|| thread_error("the archive of the import was removed already"))?;
    Ok(object_key(secret))
}

/// Returns the key of an archive in the object storage.
pub(crate) fn object_key(secret: &str) -> String {
    format!("group_imports/{secret}")
}

fn read_report(row: &Model) -> Result<ImportReport> {
    serde_json::from_str(&row.report).map_err(Error::internal)
}

fn serialize_report(report: &ImportReport) -> Result<String> {
    serde_json::to_string(report).map_err(Error::internal)
}

/// Stores the report in the transaction of the changes it describes.
async fn save_report(db: &impl ConnectionTrait, import_id: i64, report: &ImportReport) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::Report, Expr::value(serialize_report(report)?))
        .col_expr(Column::UpdatedAt, Expr::value(now()))
        .filter(Column::Id.eq(import_id))
        .exec(db)
        .await?;
    Ok(())
}

/// Locks a group that is being filled. Returns `None` if it was deleted or is being deleted.
async fn lock_group(db: &impl ConnectionTrait, id: i64) -> Result<Option<namespaces::Model>> {
    let found = namespaces::lock(db, id).await?;
    Ok(found.filter(|group| group.deletion_started_at.is_none()))
}

/// Runs the job. It can be interrupted at any point and run again. If the last attempt fails, the failure is
/// recorded in the import.
///
/// # Errors
/// Returns an error if the database, the storage or the disk fails; the job is then retried.
pub async fn run_job(backend: Backend, job: ImportGroup, attempt: JobAttempt) -> Result<(), JobFailure> {
    let done = run(&backend, job.import_id).await;
    if done.is_err() && attempt.is_last() {
        mark_failed(&backend, job.import_id).await?;
    }
    Ok(done?)
}
