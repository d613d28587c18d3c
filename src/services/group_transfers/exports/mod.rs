//! Exporting groups: asked for, written by a job, downloaded until it expires.
//!
//! The row of an archive comes first and says that nothing is there yet; then the bytes; then the row says that they are, and that
//! those before are over. So whatever a killed server leaves can be found and swept.

mod reading;
mod writer;

use chrono::TimeDelta;
use reading::Addresses;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, ExprTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::group_exports::{self, ActiveModel, Column, Entity, Model};
use storage::entities::users::State;
use storage::entities::{namespaces, now, users};
use storage::jobs;
use tokio::fs::File;
use writer::Writer;

use super::{SWEPT, secret};
use crate::error::{Error, Result};
use crate::jobs::export_group::ExportGroup;
use crate::services::Backend;
use crate::services::access::GroupAccess;
use crate::services::kernel::download::{Content, Download};
use crate::services::throttle::{self, Allowance};

/// How long an archive may be downloaded, and how long a row counts that has none yet.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// How many characters the name of an archive has before its ending.
const LONGEST_STEM: usize = 50;
/// How often a user may export.
const EXPORTS: Allowance = Allowance {
    action: "group_export",
    most: 6,
    within: TimeDelta::minutes(1),
};
/// How often a user may download.
const DOWNLOADS: Allowance = Allowance {
    action: "group_download",
    most: 12,
    within: TimeDelta::minutes(1),
};

/// Has a group exported for the caller.
///
/// # Errors
/// 429 for who asks too often, and 400 for a group with more in it than an import reads.
pub async fn schedule(backend: &Backend, access: &GroupAccess) -> Result<()> {
    let user_id = access.caller.signed_in()?.id;
    throttle::spend(backend, user_id, EXPORTS).await?;
    reading::refuse_too_much(backend.database.read(), access.group.id).await?;
    let job = ExportGroup {
        group_id: access.group.id,
        user_id,
    };
    let transaction = backend
        .database
        .transaction(async |transaction| jobs::enqueue(transaction, &job).await.map_err(Error::internal));
    transaction.await
}

/// The newest archive of a group that the caller asked for; for administrators the newest of all. What an archive tells depends
/// on who asked for it, so that it is nobody else's.
///
/// # Errors
/// 404 where there is none or its time is over, 429 for who asks too often.
pub async fn download(backend: &Backend, access: &GroupAccess) -> Result<Download> {
    let user_id = access.caller.signed_in()?.id;
    let whose = Some(user_id).filter(|_| !access.caller.is_admin());
    let found = group_exports::current(backend.database.read(), access.group.id, whose, now()).await?;
    let row = found.ok_or(Error::NotFoundOrExpired)?;
    // Only what is sent counts: whoever waits for an archive asks again and again.
    throttle::spend(backend, user_id, DOWNLOADS).await?;
    let (objects, key) = (backend.objects.clone(), key(&row));
    Ok(Download {
        content_type: "application/octet-stream".to_owned(),
        attachment: true,
        etag: Some(format!("export-{}", row.id)),
        headers: Vec::new(),
        file_name: row.file_name,
        content: Content::Seekable {
            size: u64::try_from(row.size).unwrap_or(0),
            open: Box::new(move |start, end| objects.read(&key, start, end)),
        },
    })
}

/// Writes the archive of a group for a user, and lets it take the place of the one that they had before. A group that is gone
/// has none, and a user who is gone gets none.
///
/// # Errors
/// 400 for a group that has come to have more in it than an import reads, and whatever the database, the storage or the disk
/// reports; what was written by then is removed or swept.
pub async fn run(backend: &Backend, job: &ExportGroup) -> Result<()> {
    let live = namespaces::live().filter(namespaces::Column::Id.eq(job.group_id));
    let Some(group) = live.one(backend.database.read()).await? else {
        return Ok(());
    };
    let asker = users::live().filter(users::Column::Id.eq(job.user_id));
    let Some(asker) = asker.one(backend.database.read()).await? else {
        return Ok(());
    };
    let addresses = Addresses {
        all: asker.admin && asker.state == State::Active,
        own: asker.id,
    };
    let Some(row) = announce(backend, &group, asker.id).await? else {
        return Ok(());
    };
    if let Err(error) = fill(backend, &row, addresses).await {
        discard(backend, &row).await?;
        return Err(error);
    }
    let theirs = Column::NamespaceId
        .eq(job.group_id)
        .and(Column::UserId.eq(job.user_id));
    for former in over(backend, theirs).await? {
        discard(backend, &former).await?;
    }
    Ok(())
}

/// The row of an archive that is not there yet; none where the group or the user went away.
async fn announce(backend: &Backend, group: &namespaces::Model, user_id: i64) -> Result<Option<Model>> {
    let row = ActiveModel {
        namespace_id: Set(Some(group.id)),
        user_id: Set(Some(user_id)),
        secret: Set(secret()),
        file_name: Set(file_name(&group.full_path)),
        expires_at: Set(now() + KEPT),
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

/// Writes an archive and says that it is there.
async fn fill(backend: &Backend, row: &Model, addresses: Addresses) -> Result<()> {
    let Some(group_id) = row.namespace_id else {
        return Ok(());
    };
    let mut writer = Writer::new(backend)?;
    let snapshot = backend.database.snapshot().await?;
    let written = reading::write(&snapshot, group_id, addresses, &mut writer).await;
    snapshot.rollback().await?;
    written?;
    let (archive, size) = writer.finish().await?;
    backend.objects.put(&key(row), File::from_std(archive)).await?;
    let size = i64::try_from(size).map_err(Error::internal)?;
    backend
        .database
        .transaction(async |transaction| {
            store(transaction, row, size).await?;
            // Only those of the same user, who is told the same by them, and those before: another one may have come after.
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

async fn store(transaction: &DatabaseTransaction, row: &Model, size: i64) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::Size, Expr::value(size))
        .col_expr(Column::StoredAt, Expr::value(now()))
        .col_expr(Column::ExpiresAt, Expr::value(now() + KEPT))
        .filter(Column::Id.eq(row.id))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Removes the archives whose time is over, and those of groups that are gone. How many there were is answered.
///
/// # Errors
/// Whatever the storage or the database reports.
pub async fn sweep(backend: &Backend) -> Result<usize> {
    let over = group_exports::over(backend.database.write(), now(), SWEPT).await?;
    for row in &over {
        discard(backend, row).await?;
    }
    Ok(over.len())
}

/// Removes the archives of a group that goes away. One that is just being written is left to its writer, and to the sweep.
///
/// # Errors
/// Whatever the storage or the database reports.
pub async fn forget(backend: &Backend, group_id: i64) -> Result<()> {
    let all = Entity::find()
        .filter(Column::NamespaceId.eq(group_id))
        .filter(Column::StoredAt.is_not_null());
    for row in all.all(backend.database.write()).await? {
        discard(backend, &row).await?;
    }
    Ok(())
}

/// Archives whose time is over, of those that meet a condition.
async fn over(backend: &Backend, which: Expr) -> Result<Vec<Model>> {
    let over = Entity::find().filter(which).filter(Column::ExpiresAt.lte(now()));
    Ok(over.all(backend.database.write()).await?)
}

/// Removes an archive: its bytes, and then the row that leads to them.
async fn discard(backend: &Backend, row: &Model) -> Result<()> {
    backend.objects.delete(&key(row)).await?;
    Entity::delete_by_id(row.id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}

fn key(row: &Model) -> String {
    format!("group_exports/{}", row.secret)
}

/// The name that an archive is downloaded under: the time and the path, cut where it is long.
fn file_name(full_path: &str) -> String {
    let stem = format!(
        "{}_{}",
        now().format("%Y-%m-%d_%H-%M-%3f"),
        full_path.replace('/', "_")
    );
    let stem: String = stem.chars().take(LONGEST_STEM).collect();
    format!("{stem}_export.tar.gz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_archives_tell_time_and_path_and_are_not_long() {
        let name = file_name("engines/steam");
        assert_eq!(
            name.len(),
            "2026-01-31_12-00-000_engines_steam_export.tar.gz".len()
        );
        assert!(name.ends_with("_engines_steam_export.tar.gz"), "{name}");
        let long = file_name(&"a".repeat(300));
        assert_eq!(long.len(), LONGEST_STEM + "_export.tar.gz".len());
    }
}
