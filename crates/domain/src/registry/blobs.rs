//! Blobs of repositories and their content.

use chrono::TimeDelta;
use futures_util::{StreamExt, TryStreamExt, stream};
use sea_orm::sea_query::{Expr, OnConflict, Query};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, ExprTrait, QueryFilter, QuerySelect,
};
use storage::entities::registry_blobs::Model;
use storage::entities::registry_repository_blobs::{ActiveModel, Column, Entity};
use storage::entities::{
    now, registry_blobs, registry_manifest_references as references, registry_pieces, registry_repositories,
};

use super::digest::Digest;
use super::repositories::RepositoryPath;
use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::download::{Download, DownloadContent};
use crate::kernel::error::{Error, Result};
use crate::registry::error::{RegistryError, RegistryErrorCode};

/// Resolution of the last access time of a blob. The grace period of the garbage collection is much longer.
const ACCESS_TIME_RESOLUTION: TimeDelta = TimeDelta::hours(1);

/// Maximum number of objects of a blob whose existence is checked. Only a blob that was uploaded in small parts has
/// more.
const MAX_CHECKED_OBJECTS: usize = 100;

/// Returns the blob of a repository with this digest, and renews its access time. The client can then rely on
/// the blob for a while without another push.
///
/// # Errors
/// Returns `BLOB_UNKNOWN` if the repository does not contain it.
pub async fn find(backend: &Backend, repository_id: i64, digest: &Digest) -> Result<Model, RegistryError> {
    let unknown =
        || RegistryError::with_detail(RegistryErrorCode::BlobUnknown, "blob unknown to registry", digest);
    let link = Entity::find()
        .filter(Column::RepositoryId.eq(repository_id))
        .filter(Column::BlobId.in_subquery(ids(digest)));
    let db = backend.database.read();
    let blob = registry_blobs::by_digest(digest.as_str());
    let (Some(link), Some(blob)) = (link.one(db).await?, blob.one(db).await?) else {
        return Err(unknown());
    };
    if link.touched_at < now() - ACCESS_TIME_RESOLUTION {
        let renewed = Entity::update_many()
            .col_expr(Column::TouchedAt, Expr::value(now()))
            .filter(Column::Id.eq(link.id))
            .exec(backend.database.write())
            .await?;
        if renewed.rows_affected == 0 {
            return Err(unknown());
        }
    }
    Ok(blob)
}

fn ids(digest: &Digest) -> sea_orm::sea_query::SelectStatement {
    Query::select()
        .column(registry_blobs::Column::Id)
        .from(registry_blobs::Entity)
        .and_where(Expr::col(registry_blobs::Column::Digest).eq(digest.as_str()))
        .take()
}

/// Checks that the objects of a blob exist, so that a client pushes a blob again that the storage lost. Each object
/// needs a request to the storage.
///
/// # Errors
/// Returns `BLOB_UNKNOWN` if an object does not exist, and an error if the storage fails.
pub async fn check_objects(backend: &Backend, blob: &Model) -> Result<(), RegistryError> {
    let pieces = registry_pieces::of_blob(backend.database.read(), blob.id).await?;
    match is_lost(backend, blob, &pieces).await? {
        true => Err(RegistryError::with_detail(
            RegistryErrorCode::BlobUnknown,
            "blob unknown to registry",
            &blob.digest,
        )),
        false => Ok(()),
    }
}

/// Returns whether an object of a blob with these pieces does not exist or has the wrong length. Checks at most
/// [`MAX_CHECKED_OBJECTS`].
pub(super) async fn is_lost(
    backend: &Backend,
    blob: &Model,
    pieces: &[registry_pieces::Model],
) -> Result<bool> {
    if pieces.iter().map(|piece| piece.size).sum::<i64>() != blob.size {
        return Ok(true);
    }
    for piece in pieces.iter().take(MAX_CHECKED_OBJECTS) {
        let size = backend.objects.size(&piece.key).await?;
        if size.and_then(|size| i64::try_from(size).ok()) != Some(piece.size) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the content of a blob for a full or partial download.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn open(backend: &Backend, blob: &Model) -> Result<Download> {
    let pieces = registry_pieces::of_blob(backend.database.read(), blob.id).await?;
    let objects = backend.objects.clone();
    let spans: Vec<(String, u64, u64)> = pieces
        .into_iter()
        .map(|piece| {
            let start = u64::try_from(piece.start).unwrap_or(0);
            (piece.key, start, start + u64::try_from(piece.size).unwrap_or(0))
        })
        .collect();
    Ok(Download {
        content_type: "application/octet-stream".to_owned(),
        file_name: String::new(),
        attachment: true,
        etag: Some(blob.digest.clone()),
        headers: Vec::new(),
        content: DownloadContent::Seekable {
            size: u64::try_from(blob.size).unwrap_or(0),
            open: Box::new(move |from, to| {
                let parts = spans
                    .into_iter()
                    .filter(move |(_, start, end)| *start < to && *end > from);
                let parts = parts.map(move |(key, start, end)| {
                    let (first, last) = (Ord::max(from, start) - start, Ord::min(to, end) - start);
                    objects.read(&key, first, last)
                });
                stream::iter(parts).flatten().boxed()
            }),
        },
    })
}

/// Returns the content of a small blob.
///
/// # Errors
/// Returns an error if the storage fails.
pub(super) async fn read(backend: &Backend, blob: &Model) -> Result<Vec<u8>> {
    let pieces = registry_pieces::of_blob(backend.database.read(), blob.id).await?;
    let mut bytes = Vec::new();
    for piece in pieces {
        let mut part = backend
            .objects
            .read(&piece.key, 0, u64::try_from(piece.size).unwrap_or(0));
        while let Some(piece) = part.try_next().await.map_err(Error::internal)? {
            bytes.extend_from_slice(&piece);
        }
    }
    Ok(bytes)
}

/// Links a blob to a repository, or renews the link.
pub(super) async fn link(db: &impl ConnectionTrait, repository_id: i64, blob_id: i64) -> Result<()> {
    let row = ActiveModel {
        repository_id: Set(repository_id),
        blob_id: Set(blob_id),
        touched_at: Set(now()),
        ..Default::default()
    };
    let renew = OnConflict::columns([Column::RepositoryId, Column::BlobId])
        .update_column(Column::TouchedAt)
        .to_owned();
    Entity::insert(row)
        .on_conflict(renew)
        .exec_without_returning(db)
        .await?;
    Ok(())
}

/// Links a blob of another repository, which the caller may pull from. Returns false if that repository does
/// not contain it.
///
/// # Errors
/// Returns `NAME_UNKNOWN` if the project was deleted.
pub async fn mount(
    backend: &Backend,
    to: &RepositoryPath,
    from: &RepositoryPath,
    digest: &Digest,
) -> Result<bool, RegistryError> {
    let source = match from.repository(backend).await {
        Err(RegistryError::Protocol { .. }) => return Ok(false),
        source => source?,
    };
    backend
        .database
        .transaction(async |transaction| {
            // Locked, so that it is not collected before the link is recorded.
            let blob = registry_blobs::by_digest(digest.as_str())
                .lock_exclusive()
                .one(transaction)
                .await?;
            let Some(blob) = blob else { return Ok(false) };
            let linked = Entity::find()
                .filter(Column::RepositoryId.eq(source.id))
                .filter(Column::BlobId.eq(blob.id))
                .one(transaction)
                .await?;
            if linked.is_none() {
                return Ok(false);
            }
            let target = to.repository_for_push(transaction).await?;
            link(transaction, target.id, blob.id).await?;
            Ok(true)
        })
        .await
}

/// Removes a blob from a repository. Other repositories are not affected.
///
/// # Errors
/// Returns `BLOB_UNKNOWN` if the repository does not contain it, and `DENIED` while a manifest refers to it.
pub async fn remove(
    backend: &Backend,
    access: &ProjectAccess,
    repository_id: i64,
    digest: &Digest,
) -> Result<(), RegistryError> {
    backend
        .database
        .transaction(async |transaction| {
            let unknown = || {
                RegistryError::with_detail(RegistryErrorCode::BlobUnknown, "blob unknown to registry", digest)
            };
            let locked = registry_repositories::lock_for_push(transaction, repository_id).await?;
            let repository = locked.ok_or_else(unknown)?;
            let blob = registry_blobs::by_digest(digest.as_str())
                .one(transaction)
                .await?;
            let blob = blob.ok_or_else(unknown)?;
            let needed = references::Entity::find()
                .filter(references::Column::RepositoryId.eq(repository_id))
                .filter(references::Column::BlobId.eq(blob.id))
                .limit(1)
                .one(transaction)
                .await?;
            if needed.is_some() {
                return Err(RegistryError::with_detail(
                    RegistryErrorCode::InUse,
                    "a manifest refers to the blob",
                    digest,
                ));
            }
            let removed = Entity::delete_many()
                .filter(Column::RepositoryId.eq(repository_id))
                .filter(Column::BlobId.eq(blob.id))
                .exec(transaction)
                .await?;
            if removed.rows_affected == 0 {
                return Err(unknown());
            }
            let description = format!("{}@{digest}", repository.name);
            let target = AuditTarget::new("RegistryBlob", blob.id, description);
            let event = AuditEvent::new(AuditKind::RegistryBlobDeleted, access.audit_entity(), target);
            Ok(audit::record(transaction, &access.caller, event).await?)
        })
        .await
}
