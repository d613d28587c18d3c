//! Blob uploads, from the first request to the one with the digest.

use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    QueryFilter, QuerySelect,
};
use storage::entities::registry_uploads::{self, ActiveModel, Column, Entity};
use storage::entities::{now, registry_blobs, registry_pieces, registry_repositories};
use uuid::Uuid;

use super::blobs;
use super::digest::{Digest, DigestState};
use super::repositories::RepositoryPath;
use crate::kernel::Backend;
use crate::registry::error::{RegistryError, RegistryErrorCode};
use crate::registry::garbage_collection;
use crate::registry::reauthorization::check_push_again;
use crate::registry::upload_stream::{self, BodyStream};

pub use storage::entities::registry_uploads::Model as Upload;

/// A part of a blob in a request.
pub struct UploadPart {
    /// The bytes.
    pub body: BodyStream,
    /// The offset within the blob; by default the end of the last part.
    pub start: Option<u64>,
    /// The length, if known.
    pub length: Option<u64>,
}

/// Starts an upload to a repository, creating the repository if needed.
///
/// # Errors
/// Returns `NAME_UNKNOWN` if the project was deleted.
pub async fn begin(backend: &Backend, repository_path: &RepositoryPath) -> Result<Upload, RegistryError> {
    backend
        .database
        .transaction(async |transaction| {
            let repository = repository_path.repository_for_push(transaction).await?;
            let at = now();
            let row = ActiveModel {
                uuid: Set(Uuid::new_v4().to_string()),
                repository_id: Set(repository.id),
                received: Set(0),
                pieces: Set(0),
                hash_state: Set(DigestState::default().state()),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            Ok(row.insert(transaction).await?)
        })
        .await
}

/// Returns an active upload of a repository.
///
/// # Errors
/// Returns `BLOB_UPLOAD_UNKNOWN` if it does not exist.
pub async fn find(
    backend: &Backend,
    repository_path: &RepositoryPath,
    uuid: &str,
) -> Result<Upload, RegistryError> {
    // Invalid IDs are not looked up, because a database does not accept every text.
    let uuid = Uuid::parse_str(uuid)
        .map_err(|_| RegistryError::unknown_upload())?
        .to_string();
    let repository = repository_path
        .repository(backend)
        .await
        .map_err(|fault| match fault {
            RegistryError::Protocol { .. } => RegistryError::unknown_upload(),
            fault => fault,
        })?;
    let found = Entity::find()
        .filter(Column::Uuid.eq(uuid))
        .filter(Column::RepositoryId.eq(repository.id));
    found
        .one(backend.database.read())
        .await?
        .ok_or_else(RegistryError::unknown_upload)
}

/// Stores the next part of an upload. Data received before an interruption is stored as well.
///
/// # Errors
/// Returns [`RegistryError::OutOfOrder`] if the part starts at the wrong offset, and `SIZE_INVALID` if the blob
/// becomes too large. Returns `BLOB_UPLOAD_INVALID` if the body breaks off, and `TOOMANYREQUESTS` if no
/// upload slot becomes free. Returns an error if the caller may not push any more.
pub async fn receive(
    backend: &Backend,
    repository_path: &RepositoryPath,
    upload: Upload,
    part: UploadPart,
) -> Result<Upload, RegistryError> {
    let received = u64::try_from(upload.received).unwrap_or(0);
    if part.start.is_some_and(|start| start != received) {
        return Err(RegistryError::OutOfOrder(received));
    }
    let most = backend.instance.max_layer_bytes;
    if part
        .length
        .is_some_and(|length| received.saturating_add(length) > most)
    {
        return Err(upload_stream::too_large(backend));
    }
    upload_stream::receive(backend, repository_path, upload, part.body).await
}

/// Completes an upload and links the blob to the repository. A blob that exists already is not stored again, unless the
/// storage lost an object of it.
///
/// # Errors
/// Returns `DIGEST_INVALID` if the content does not match the digest; it is then discarded. Returns
/// `BLOB_UPLOAD_UNKNOWN` if the upload does not exist, and an error if the caller may not push any more.
pub async fn finish(
    backend: &Backend,
    repository_path: &RepositoryPath,
    upload: &Upload,
    digest: &Digest,
) -> Result<(), RegistryError> {
    check_push_again(backend, repository_path).await?;
    // The storage is not read within the transaction.
    let lost = lost_pieces(backend, digest).await?;
    let ended = async |transaction: &DatabaseTransaction| {
        complete(transaction, upload, digest, lost.as_deref()).await
    };
    let (fits, pieces) = backend.database.transaction(ended).await?;
    garbage_collection::discard(backend, pieces).await;
    match fits {
        true => Ok(()),
        false => Err(RegistryError::with_detail(
            RegistryErrorCode::DigestInvalid,
            "provided digest did not match uploaded content",
            digest,
        )),
    }
}

/// Returns the IDs of the pieces of an existing blob if the storage lost an object of it.
async fn lost_pieces(backend: &Backend, digest: &Digest) -> Result<Option<Vec<i64>>, RegistryError> {
    let db = backend.database.read();
    let Some(blob) = registry_blobs::by_digest(digest.as_str()).one(db).await? else {
        return Ok(None);
    };
    let pieces = registry_pieces::of_blob(db, blob.id).await?;
    let is_lost = blobs::is_lost(backend, &blob, &pieces).await?;
    Ok(is_lost.then(|| pieces.iter().map(|piece| piece.id).collect()))
}

/// Detaches the pieces of a locked blob if they are those of which the storage lost an object. Returns them, and `None`
/// if the blob keeps its pieces.
async fn detach_lost(
    transaction: &DatabaseTransaction,
    blob_id: i64,
    lost: Option<&[i64]>,
) -> Result<Option<Vec<registry_pieces::Model>>, RegistryError> {
    let Some(lost) = lost else { return Ok(None) };
    // Another push can have replaced them. IDs are never reused.
    let pieces = registry_pieces::of_blob(transaction, blob_id).await?;
    if !pieces.iter().map(|piece| piece.id).eq(lost.iter().copied()) {
        return Ok(None);
    }
    registry_pieces::Entity::update_many()
        .col_expr(registry_pieces::Column::BlobId, Expr::value(None::<i64>))
        .filter(registry_pieces::Column::BlobId.eq(blob_id))
        .exec(transaction)
        .await?;
    Ok(Some(pieces))
}

/// Returns whether the digest matches, and the pieces to discard: those of a mismatch or of an existing blob, or the
/// pieces of a blob that were replaced.
async fn complete(
    transaction: &DatabaseTransaction,
    upload: &Upload,
    digest: &Digest,
    lost: Option<&[i64]>,
) -> Result<(bool, Vec<registry_pieces::Model>), RegistryError> {
    // Locked first, because the deletion of a project locks its repositories before their uploads.
    registry_repositories::lock_shared(transaction, upload.repository_id)
        .await?
        .ok_or_else(RegistryError::unknown_upload)?;
    let upload = registry_uploads::lock(transaction, &upload.uuid)
        .await?
        .ok_or_else(RegistryError::unknown_upload)?;
    let hashing = DigestState::resume(&upload.hash_state).ok_or_else(RegistryError::unknown_upload)?;
    let fits = hashing.digest() == *digest;
    let mut unused = Vec::new();
    if fits {
        let (blob_id, new) = blob(transaction, digest, upload.received).await?;
        blobs::link(transaction, upload.repository_id, blob_id).await?;
        let replaced = detach_lost(transaction, blob_id, lost).await?;
        if new || replaced.is_some() {
            registry_pieces::Entity::update_many()
                .col_expr(registry_pieces::Column::BlobId, Expr::value(blob_id))
                .col_expr(registry_pieces::Column::UploadId, Expr::value(None::<i64>))
                .filter(registry_pieces::Column::UploadId.eq(upload.id))
                .filter(registry_pieces::Column::StoredAt.is_not_null())
                .exec(transaction)
                .await?;
        }
        unused.extend(replaced.into_iter().flatten());
    }
    unused.extend(delete_upload(transaction, upload.id).await?);
    Ok((fits, unused))
}

/// Deletes an upload and returns its complete pieces, which are now orphaned. A piece that is being written
/// is deleted by its writer.
async fn delete_upload(
    db: &impl ConnectionTrait,
    id: i64,
) -> Result<Vec<registry_pieces::Model>, RegistryError> {
    let pieces = registry_pieces::Entity::find()
        .filter(registry_pieces::Column::UploadId.eq(id))
        .filter(registry_pieces::Column::StoredAt.is_not_null())
        .all(db)
        .await?;
    Entity::delete_by_id(id).exec(db).await?;
    Ok(pieces)
}

/// Returns the blob with this digest, locked, and whether it is new. A blob marked for collection is
/// unmarked.
async fn blob(db: &impl ConnectionTrait, digest: &Digest, size: i64) -> Result<(i64, bool), RegistryError> {
    loop {
        let row = registry_blobs::ActiveModel {
            digest: Set(digest.as_str().to_owned()),
            size: Set(size),
            created_at: Set(now()),
            ..Default::default()
        };
        let once = OnConflict::column(registry_blobs::Column::Digest)
            .do_nothing()
            .to_owned();
        let inserted = registry_blobs::Entity::insert(row)
            .on_conflict(once)
            .exec_without_returning(db)
            .await?;
        let found = registry_blobs::by_digest(digest.as_str()).lock_exclusive();
        // It may have been collected since the insert found it.
        let Some(blob) = found.one(db).await? else {
            continue;
        };
        if blob.unreferenced_since.is_some() {
            registry_blobs::Entity::update_many()
                .col_expr(
                    registry_blobs::Column::UnreferencedSince,
                    Expr::value(None::<chrono::DateTime<chrono::Utc>>),
                )
                .filter(registry_blobs::Column::Id.eq(blob.id))
                .exec(db)
                .await?;
        }
        return Ok((blob.id, inserted > 0));
    }
}

/// Cancels an upload and discards its data.
///
/// # Errors
/// Returns `BLOB_UPLOAD_UNKNOWN` if it has ended.
pub async fn cancel(backend: &Backend, upload: &Upload) -> Result<(), RegistryError> {
    let dropped = async |transaction: &DatabaseTransaction| {
        let upload = registry_uploads::lock(transaction, &upload.uuid)
            .await?
            .ok_or_else(RegistryError::unknown_upload)?;
        delete_upload(transaction, upload.id).await
    };
    let pieces = backend.database.transaction(dropped).await?;
    garbage_collection::discard(backend, pieces).await;
    Ok(())
}
