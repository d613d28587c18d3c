//! Making groups of archives.
//!
//! The archive goes to the object storage, and the group is made, with a job that fills it. That reads the whole archive first
//! ([`opening`]) and refuses it, or makes all groups below in one transaction, with what belongs to the first ([`planting`]), and
//! then enters what belongs to each of the others in one of its own ([`entering`]). Which of them are done stands in the database, so that an import that was killed goes on where it was.

mod boards;
mod checks;
mod entering;
mod epics;
mod names;
mod opening;
mod people;
mod planning;
mod planting;
mod report;
mod spooled;
mod tree;
mod unpacking;

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

pub use report::{Kind, Progress, Report, Status, Unmapped};

use entering::Entering;
use opening::{Opened, fault};
use storage::database::Violation;
use storage::entities::group_imports::{self, ActiveModel, Column, Entity, Model, State};
use storage::entities::{imported_groups, namespaces, now, users};
use storage::jobs::{self, Job};

use super::{SWEPT, broken, secret};
use crate::error::{Error, Result};
use crate::jobs::import_group::ImportGroup;
use crate::policy::Role;
use crate::services::Backend;
use crate::services::access::GroupAccess;
use crate::services::authentication::{self, Caller};
use crate::services::groups::{self, NewGroup, Settings};
use crate::services::throttle::{self, Allowance};
use crate::services::uploads::UploadedFile;

/// How long an archive without a group is one that somebody may be about to make it for.
const ADRIFT: TimeDelta = TimeDelta::hours(24);
/// How a file begins that is compressed with gzip.
const GZIP: [u8; 3] = [0x1F, 0x8B, 0x08];
/// How often a user may import.
const IMPORTS: Allowance = Allowance {
    action: "group_import",
    most: 6,
    within: TimeDelta::minutes(1),
};
/// What is said to who imports a second group meanwhile.
const ANOTHER: &str = "You already have an import in progress; wait until it finishes";
/// The constraint that keeps them to one at a time.
const ONE_AT_A_TIME: &str = "uq_group_imports_user_id";
/// What is said of an import that failed for reasons of the server's, again and again.
const GIVEN_UP: &str = "The import failed because of an internal error; see the server log";

/// What is to be made of an archive.
#[derive(Debug)]
pub struct NewImport {
    /// The name of the group.
    pub name: String,
    /// The last part of its path.
    pub path: String,
    /// The group above.
    pub parent_id: Option<i64>,
}

/// Makes a group that an archive is to fill.
///
/// # Errors
/// 403 and 404 as for making a group, 400 for a name or path that does not do and for what is no archive, 429 for who asks too
/// often, 409 while another import of theirs has not ended.
pub async fn begin(
    backend: &Backend,
    caller: &Caller,
    new: NewImport,
    mut archive: UploadedFile,
) -> Result<()> {
    let user_id = caller.signed_in()?.id;
    throttle::spend(backend, user_id, IMPORTS).await?;
    let new = NewGroup {
        name: new.name,
        path: new.path,
        parent_id: new.parent_id,
        visibility: None,
        settings: Settings::default(),
    };
    let admitted = groups::admit(backend, caller, new).await?.out_of_archive(caller);
    refuse_other_than_gzip(&mut archive).await?;
    // Before the archive is stored; that they are not begun at the same moment is seen to when the group is made.
    if group_imports::is_importing(backend.database.read(), user_id).await? {
        return Err(Error::Conflict(ANOTHER.into()));
    }
    let at = now();
    let row = ActiveModel {
        user_id: Set(Some(user_id)),
        secret: Set(Some(secret())),
        state: Set(State::Scheduled),
        report: Set(told(&Report::default())?),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let row = row.insert(backend.database.write()).await?;
    let made = async {
        backend.objects.put(&key(&row)?, archive.file).await?;
        groups::make(backend, caller, admitted, async |transaction, group| {
            let mine = ActiveModel {
                id: Set(row.id),
                namespace_id: Set(Some(group.id)),
                ..Default::default()
            };
            mine.update(transaction).await.map_err(refused)?;
            let job = ImportGroup { import_id: row.id };
            jobs::enqueue(transaction, &job).await.map_err(Error::internal)
        })
        .await
    };
    match made.await {
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

fn refused(error: DbErr) -> Error {
    match Violation::is_unique(&error, ONE_AT_A_TIME) {
        true => Error::Conflict(ANOTHER.into()),
        false => error.into(),
    }
}

async fn refuse_other_than_gzip(archive: &mut UploadedFile) -> Result<()> {
    let mut start = Vec::new();
    (&mut archive.file)
        .take(GZIP.len() as u64)
        .read_to_end(&mut start)
        .await
        .map_err(Error::internal)?;
    archive.file.rewind().await.map_err(Error::internal)?;
    match start == GZIP {
        true => Ok(()),
        false => Err(Error::attribute(
            "file",
            "must be an archive that is compressed with gzip",
        )),
    }
}

/// How far the import is that a group was made by.
///
/// # Errors
/// Whatever the database reports.
pub async fn status(backend: &Backend, access: &GroupAccess) -> Result<Status> {
    let db = backend.database.read();
    let group_id = access.group.id;
    let import = match group_imports::of_group(db, group_id).await? {
        None => None,
        Some(row) => Some(Progress {
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
    Ok(Status { group_id, import })
}

/// Carries an import out, or goes on with it. What the archive or the caller is to blame for ends it for good.
///
/// # Errors
/// What the server is to blame for; the import may be tried again then.
pub async fn run(backend: &Backend, import_id: i64) -> Result<()> {
    let found = Entity::find_by_id(import_id)
        .one(backend.database.write())
        .await?;
    let Some(row) = found else { return Ok(()) };
    if matches!(row.state, State::Scheduled | State::Started) && row.namespace_id.is_some() {
        set_state(backend.database.write(), import_id, State::Started, None).await?;
        let (state, why) = match carry_out(backend, &row).await {
            Ok(()) => (State::Finished, None),
            Err(error) => match checks::text_of(&error) {
                Some(text) => (State::Failed, Some(text)),
                None => return Err(error),
            },
        };
        set_state(backend.database.write(), import_id, state, why).await?;
    }
    discard(backend, &row).await
}

/// Ends an import that nobody tries again.
///
/// # Errors
/// Whatever the database or the storage reports.
pub async fn give_up(backend: &Backend, import_id: i64) -> Result<()> {
    let db = backend.database.write();
    let Some(row) = Entity::find_by_id(import_id).one(db).await? else {
        return Ok(());
    };
    set_state(db, import_id, State::Failed, Some(GIVEN_UP.to_owned())).await?;
    discard(backend, &row).await
}

async fn set_state(db: &impl ConnectionTrait, id: i64, state: State, error: Option<String>) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::State, Expr::value(state))
        .col_expr(Column::Error, Expr::value(error))
        .col_expr(Column::UpdatedAt, Expr::value(now()))
        .filter(Column::Id.eq(id))
        .exec(db)
        .await?;
    Ok(())
}

async fn carry_out(backend: &Backend, row: &Model) -> Result<()> {
    let access = importer(backend, row).await?;
    let opened = open(backend, row).await?;
    let report = read_report(row)?;
    let mut entering = Entering::new(backend, access, row.id, opened, report).await?;
    entering.find_people().await?;
    entering.plant().await?;
    entering.enter().await
}

/// Who imports, as Owner of the group that was made.
async fn importer(backend: &Backend, row: &Model) -> Result<GroupAccess> {
    let gone = || fault("The importing user no longer exists");
    let user = users::live().filter(users::Column::Id.eq(row.user_id.ok_or_else(gone)?));
    let user = user.one(backend.database.read()).await?.ok_or_else(gone)?;
    authentication::refuse_shut_out(&user)?;
    let group_id = row.namespace_id.unwrap_or_default().to_string();
    let access = GroupAccess::find(backend, Caller::user(user), &group_id).await?;
    match access.holds(Role::Owner) {
        true => Ok(access),
        false => Err(fault("The importing user is no longer an Owner of the group")),
    }
}

/// Fetches the archive and reads it.
async fn open(backend: &Backend, row: &Model) -> Result<Opened> {
    let key = key(row)?;
    let size = backend.objects.size(&key).await?;
    let size = size.ok_or_else(|| broken("the archive is not in the object storage"))?;
    let mut archive = tokio::fs::File::from_std(spool(backend)?);
    let mut pieces = backend.objects.read(&key, 0, size);
    while let Some(piece) = pieces.try_next().await.map_err(broken)? {
        archive.write_all(&piece).await.map_err(broken)?;
    }
    archive.flush().await.map_err(broken)?;
    archive.rewind().await.map_err(broken)?;
    let (archive, spool) = (archive.into_std().await, spool(backend)?);
    let validator = Arc::clone(&backend.record_validator);
    tokio::task::spawn_blocking(move || opening::open(archive, spool, &*validator))
        .await
        .map_err(broken)?
}

fn spool(backend: &Backend) -> Result<StdFile> {
    backend.objects.spool().map_err(broken)
}

/// Ends imports whose job was given up without being able to say so, as one is whose server was lost in its last attempt, and
/// removes archives that are needed no more. How many there were is answered.
///
/// # Errors
/// Whatever the storage or the database reports.
pub async fn sweep(backend: &Backend) -> Result<usize> {
    let db = backend.database.write();
    let lost = group_imports::lost(db, ImportGroup::KIND, SWEPT).await?;
    for row in &lost {
        give_up(backend, row.id).await?;
    }
    let over = group_imports::over(db, now() - ADRIFT, SWEPT).await?;
    for row in &over {
        discard(backend, row).await?;
        if row.namespace_id.is_none() {
            Entity::delete_by_id(row.id).exec(db).await?;
        }
    }
    Ok(lost.len() + over.len())
}

/// Removes the archive that a group which goes away was to be filled from.
///
/// # Errors
/// Whatever the storage or the database reports.
pub async fn forget(backend: &Backend, group_id: i64) -> Result<()> {
    let db = backend.database.write();
    let Some(row) = group_imports::of_group(db, group_id).await? else {
        return Ok(());
    };
    discard(backend, &row).await?;
    Entity::delete_by_id(row.id).exec(db).await?;
    Ok(())
}

/// Removes an archive, and then what leads to it.
async fn discard(backend: &Backend, row: &Model) -> Result<()> {
    if row.secret.is_some() {
        backend.objects.delete(&key(row)?).await?;
        Entity::update_many()
            .col_expr(Column::Secret, Expr::value(None::<String>))
            .filter(Column::Id.eq(row.id))
            .exec(backend.database.write())
            .await?;
    }
    Ok(())
}

fn key(row: &Model) -> Result<String> {
    let secret = row.secret.as_deref();
    let secret = secret.ok_or_else(|| broken("the archive of the import no longer exists"))?;
    Ok(format!("group_imports/{secret}"))
}

fn read_report(row: &Model) -> Result<Report> {
    serde_json::from_str(&row.report).map_err(Error::internal)
}

fn told(report: &Report) -> Result<String> {
    serde_json::to_string(report).map_err(Error::internal)
}

/// Keeps what is to be told, in the transaction of what it tells of.
async fn save_report(db: &impl ConnectionTrait, import_id: i64, report: &Report) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::Report, Expr::value(told(report)?))
        .col_expr(Column::UpdatedAt, Expr::value(now()))
        .filter(Column::Id.eq(import_id))
        .exec(db)
        .await?;
    Ok(())
}

/// A group that is filled, as it is now; none when it is gone or goes away.
async fn live(db: &impl ConnectionTrait, id: i64) -> Result<Option<namespaces::Model>> {
    let found = namespaces::lock(db, id).await?;
    Ok(found.filter(|group| group.deletion_started_at.is_none()))
}
