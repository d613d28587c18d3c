//! Group exports: requested by a user, written by a job, and downloadable until they expire.
//!
//! The row of an archive is inserted first, without content. Then the content is stored. Then the row is
//! marked as stored, and earlier archives expire. A sweep can therefore find everything that a killed server
//! leaves behind.

mod record_writer;
mod writer;

use chrono::TimeDelta;
use record_writer::AddressPolicy;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, ExprTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::group_exports::{self, ActiveModel, Column, Entity, Model};
use storage::entities::users::UserState;
use storage::entities::{namespaces, now, users};
use storage::jobs::{self, JobFailure};
use tokio::fs::File;
use writer::ArchiveWriter;

use crate::audit::{self, AuditEvent, AuditKind};
use crate::identity::access::GroupAccess;
use crate::integrations::object_storage::SweepProgress;
use crate::kernel::Backend;
use crate::kernel::download::{Download, DownloadContent};
use crate::kernel::error::{Error, Result};
use crate::kernel::rate_limit::{self, Quota};
use crate::transfers::jobs::export_group::ExportGroup;
use crate::transfers::stored_archives::{MAX_SWEPT, secret};

/// Time for which an archive can be downloaded, and for which a row without one is kept.
const ARCHIVE_RETENTION: TimeDelta = TimeDelta::hours(24);
/// Maximum length of an archive's file name before its suffix, in characters.
const MAX_STEM_LENGTH: usize = 50;
/// Export quota of a user.
const EXPORT_QUOTA: Quota = Quota {
    action: "group_export",
    most: 6,
    within: TimeDelta::minutes(1),
};
/// Download quota of a user.
const DOWNLOAD_QUOTA: Quota = Quota {
    action: "group_download",
    most: 12,
    within: TimeDelta::minutes(1),
};

/// Enqueues the export of a group for the caller.
///
/// # Errors
/// Returns `Error::RateLimited` if the quota is exceeded. Returns `Error::Rejected` if the group exceeds an
/// import limit.
pub async fn enqueue(backend: &Backend, access: &GroupAccess) -> Result<()> {
    let user_id = access.caller.signed_in()?.id;
    rate_limit::consume(backend, user_id, EXPORT_QUOTA).await?;
    record_writer::check_limits(backend.database.read(), access.group.id).await?;
    let job = ExportGroup {
        group_id: access.group.id,
        user_id,
    };
    let transaction = backend.database.transaction(async |transaction| {
        let event = AuditEvent::of(AuditKind::GroupExported, access.audit_entity());
        audit::record(transaction, &access.caller, event).await?;
        jobs::enqueue(transaction, &job).await.map_err(Error::internal)
    });
    transaction.await
}

/// Returns the newest archive that the caller requested, or the newest of all for administrators. The content
/// depends on the requester, so archives are not shared.
///
/// # Errors
/// Returns `Error::NotFoundOrExpired` if there is none or it has expired. Returns `Error::RateLimited` if the
/// quota is exceeded.
pub async fn download(backend: &Backend, access: &GroupAccess) -> Result<Download> {
    let user_id = access.caller.signed_in()?.id;
    let author_id = Some(user_id).filter(|_| !access.caller.is_admin());
    let found = group_exports::current(backend.database.read(), access.group.id, author_id, now()).await?;
    let row = found.ok_or(Error::NotFoundOrExpired)?;
    // Only downloads count, because clients poll until an archive is ready.
    rate_limit::consume(backend, user_id, DOWNLOAD_QUOTA).await?;
    let (objects, key) = (backend.objects.clone(), key(&row));
    Ok(Download {
        content_type: "application/octet-stream".to_owned(),
        attachment: true,
        etag: Some(format!("export-{}", row.id)),
        headers: Vec::new(),
        file_name: row.file_name,
        content: DownloadContent::Seekable {
            size: u64::try_from(row.size).unwrap_or(0),
            open: Box::new(move |start, end| objects.read(&key, start, end)),
        },
    })
}

/// Writes the archive of a group for a user and replaces the user's previous one. Does nothing if the group
/// or user was deleted.
///
/// # Errors
/// Returns `Error::Rejected` if the group exceeds an import limit meanwhile. Returns an error if the database,
/// the storage or the disk fails. Incomplete archives are removed here or by the sweep.
pub async fn run(backend: &Backend, job: &ExportGroup) -> Result<()> {
    let live = namespaces::not_deleted().filter(namespaces::Column::Id.eq(job.group_id));
    let Some(group) = live.one(backend.database.read()).await? else {
        return Ok(());
    };
    let asker = users::not_deleted().filter(users::Column::Id.eq(job.user_id));
    let Some(asker) = asker.one(backend.database.read()).await? else {
        return Ok(());
    };
    let addresses = AddressPolicy {
        all: asker.admin && asker.state == UserState::Active,
        own: asker.id,
    };
    let Some(row) = create_row(backend, &group, asker.id).await? else {
        return Ok(());
    };
    if let Err(error) = write_archive(backend, &row, addresses).await {
        discard(backend, &row).await?;
        return Err(error);
    }
    let theirs = Column::NamespaceId
        .eq(job.group_id)
        .and(Column::UserId.eq(job.user_id));
    for former in expired(backend, theirs).await? {
        discard(backend, &former).await?;
    }
    Ok(())
}

/// Inserts the row of an archive without content. Returns `None` if the group or the user was deleted.
async fn create_row(backend: &Backend, group: &namespaces::Model, user_id: i64) -> Result<Option<Model>> {
    let row = ActiveModel {
        namespace_id: Set(Some(group.id)),
        user_id: Set(Some(user_id)),
        secret: Set(secret()),
        file_name: Set(file_name(&group.full_path)),
        expires_at: Set(now() + ARCHIVE_RETENTION),
        created_at: Set(now()),
        ..Default::default()
    };
    match row.insert(backend.database.write()).await {
        Ok(row) => Ok(Some(row)),
        Err(error) => match Violation::of(&error) {
            Some(Violation::ForeignKey(_)) => Ok(None),
            _ => Err(error.into()),
        },
    }
}

/// Writes an archive and marks its row as stored.
async fn write_archive(backend: &Backend, row: &Model, addresses: AddressPolicy) -> Result<()> {
    let Some(group_id) = row.namespace_id else {
        return Ok(());
    };
    let mut writer = ArchiveWriter::new(backend)?;
    let snapshot = backend.database.snapshot().await?;
    let written = record_writer::write(&snapshot, group_id, addresses, &mut writer).await;
    snapshot.rollback().await?;
    written?;
    let (archive, size) = writer.finish().await?;
    backend.objects.put(&key(row), File::from_std(archive)).await?;
    let size = i64::try_from(size).map_err(Error::internal)?;
    backend
        .database
        .transaction(async |transaction| {
            mark_stored(transaction, row, size).await?;
            // Only earlier archives of the same user expire. A later one may have been stored meanwhile.
            Entity::update_many()
                .col_expr(Column::ExpiresAt, Expr::value(now()))
                .filter(Column::NamespaceId.eq(group_id))
                .filter(Column::UserId.eq(row.user_id))
                .filter(Column::Id.lt(row.id))
                .filter(Column::StoredAt.is_not_null())
                .exec(transaction)
                .await?;
            Ok(())
        })
        .await
}

async fn mark_stored(transaction: &DatabaseTransaction, row: &Model, size: i64) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::Size, Expr::value(size))
        .col_expr(Column::StoredAt, Expr::value(now()))
        .col_expr(Column::ExpiresAt, Expr::value(now() + ARCHIVE_RETENTION))
        .filter(Column::Id.eq(row.id))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Removes expired archives and those of deleted groups. Returns their number. An archive that cannot be deleted
/// remains for the next sweep.
///
/// # Errors
/// Returns an error if the database fails, or if an archive could not be deleted.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let over = group_exports::expired(backend.database.write(), now(), MAX_SWEPT).await?;
    let mut progress = SweepProgress::new();
    for row in &over {
        if !progress.record(discard(backend, row).await) {
            break;
        }
    }
    progress.finish()
}

/// Removes the archives of a deleted group. One that is being written is left to its writer and to the sweep.
///
/// # Errors
/// Returns an error if the storage or the database fails.
pub async fn delete_archives(backend: &Backend, group_id: i64) -> Result<()> {
    let all = Entity::find()
        .filter(Column::NamespaceId.eq(group_id))
        .filter(Column::StoredAt.is_not_null());
    for row in all.all(backend.database.write()).await? {
        discard(backend, &row).await?;
    }
    Ok(())
}

/// Returns the expired archives that meet a condition.
async fn expired(backend: &Backend, which: Expr) -> Result<Vec<Model>> {
    let over = Entity::find().filter(which).filter(Column::ExpiresAt.lte(now()));
    Ok(over.all(backend.database.write()).await?)
}

/// Removes an archive: first its content, then its row.
async fn discard(backend: &Backend, row: &Model) -> Result<()> {
    backend.objects.discard(&key(row)).await?;
    Entity::delete_by_id(row.id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}

fn key(row: &Model) -> String {
    object_key(&row.secret)
}

/// Returns the key of an archive in the object storage.
pub(crate) fn object_key(secret: &str) -> String {
    format!("group_exports/{secret}")
}

/// Returns the file name of an archive: the time and the path, truncated.
fn file_name(full_path: &str) -> String {
    let stem = format!(
        "{}_{}",
        now().format("%Y-%m-%d_%H-%M-%3f"),
        full_path.replace('/', "_")
    );
    let stem: String = stem.chars().take(MAX_STEM_LENGTH).collect();
    format!("{stem}_export.tar.gz")
}

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the database, the storage or the disk fails; the job is then retried. A rejected
/// export is not retried.
pub async fn run_job(backend: Backend, job: ExportGroup) -> Result<(), JobFailure> {
    match run(&backend, &job).await {
        Err(error @ Error::Rejected(_)) => Err(JobFailure::permanent(error)),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_file_name_has_time_and_limited_path() {
        let name = file_name("engines/steam");
        assert_eq!(
            name.len(),
            "2026-01-31_12-00-000_engines_steam_export.tar.gz".len()
        );
        assert!(name.ends_with("_engines_steam_export.tar.gz"), "{name}");
        let long = file_name(&"a".repeat(300));
        assert_eq!(long.len(), MAX_STEM_LENGTH + "_export.tar.gz".len());
    }
}
