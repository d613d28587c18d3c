//! Receives the data of an upload: hashed on arrival and stored in pieces, so that a failure loses at most
//! the last piece.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    QueryFilter,
};
use storage::database::Violation;
use storage::entities::now;
use storage::entities::registry_pieces::{ActiveModel, Column, Entity, Model as Piece};
use storage::entities::registry_uploads::{self, Model as Upload};
use tokio::time::Instant;

use super::digest::DigestState;
use super::repositories::RepositoryPath;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::registry::error::{RegistryError, RegistryErrorCode};
use crate::registry::garbage_collection;
use crate::registry::reauthorization::check_push_again;

/// Folder of all registry objects in the storage.
pub(super) const FOLDER: &str = "registry";
/// Maximum size of a piece, in bytes.
const MAX_PIECE_BYTES: u64 = 128 << 20;
/// Time limit for a piece; the data received until then is stored.
const PIECE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum number of pieces of an upload, which limits tiny parts.
const MAX_PIECES: i32 = 10_000;

/// The body of a request.
pub type BodyStream = BoxStream<'static, std::io::Result<Bytes>>;

/// Returns the error of a blob that exceeds the maximum size.
pub(super) fn too_large(backend: &Backend) -> RegistryError {
    let most = backend.instance.max_layer_bytes;
    RegistryError::new(
        RegistryErrorCode::SizeInvalid,
        format!("the blob is too large (maximum is {most} bytes; setting: max_layer_bytes)"),
    )
}

/// Receives a body. It continues after the caller has disconnected, until the body ends or breaks off.
///
/// # Errors
/// Returns the errors of [`super::uploads::receive`].
pub(super) async fn receive(
    backend: &Backend,
    repository_path: &RepositoryPath,
    upload: Upload,
    mut body: BodyStream,
) -> Result<Upload, RegistryError> {
    let hashing = DigestState::resume(&upload.hash_state).ok_or_else(RegistryError::unknown_upload)?;
    // Slots are for data: a request without any does not wait for one or occupy one.
    let Some(first) = next_bytes(&mut body).await? else {
        return Ok(upload);
    };
    let client = repository_path.access.caller.slot_holder();
    let slot = backend.upload_slots.acquire_in_time(&client).await;
    let slot = slot.map_err(Error::internal)?.ok_or_else(|| {
        RegistryError::new(
            RegistryErrorCode::TooManyRequests,
            "too many concurrent uploads; try again later",
        )
    })?;
    let body = stream::iter([Ok(first)]).chain(body).boxed();
    let reception = UploadReceiver {
        backend: backend.clone(),
        repository_path: repository_path.clone(),
        upload,
        hashing,
        body,
    };
    let task = backend.ref_update_tasks.spawn(async move {
        let _place = slot;
        reception.run().await
    });
    task.await.map_err(Error::internal)?
}

struct UploadReceiver {
    backend: Backend,
    repository_path: RepositoryPath,
    upload: Upload,
    hashing: DigestState,
    body: BodyStream,
}

/// Reason for the end of a piece.
enum PieceEnd {
    /// The body ended.
    Body,
    /// The piece reached its maximum size or time.
    Piece,
    /// The body failed.
    Broken(RegistryError),
}

impl UploadReceiver {
    async fn run(mut self) -> Result<Upload, RegistryError> {
        loop {
            let Some(first) = next_bytes(&mut self.body).await? else {
                return Ok(self.upload);
            };
            if self.upload.pieces >= MAX_PIECES {
                let text =
                    format!("the upload has too many chunks (maximum is {MAX_PIECES}); send larger chunks");
                return Err(RegistryError::new(RegistryErrorCode::BlobUploadInvalid, text));
            }
            let piece = create_piece(&self.backend, &self.upload).await?;
            match self.piece(&piece, first).await {
                Ok(PieceEnd::Piece) => {}
                Ok(PieceEnd::Body) => return Ok(self.upload),
                Ok(PieceEnd::Broken(fault)) => return Err(fault),
                Err(fault) => {
                    delete_piece(&self.backend, piece).await;
                    return Err(fault);
                }
            }
        }
    }

    /// Writes a piece, and advances the upload.
    async fn piece(&mut self, piece: &Piece, first: Bytes) -> Result<PieceEnd, RegistryError> {
        let received = u64::try_from(self.upload.received).unwrap_or(0);
        let room = self.backend.instance.max_layer_bytes.saturating_sub(received);
        let mut hashing = self.hashing.clone();
        let mut writer = self.backend.objects.write(&piece.key);
        let (mut size, mut next, until) = (0_u64, Some(first), Instant::now() + PIECE_TIMEOUT);
        let end = loop {
            if let Some(bytes) = next.take() {
                size += bytes.len() as u64;
                if size > room {
                    return Err(too_large(&self.backend));
                }
                hashing.update(&bytes);
                writer.push(bytes).await?;
            }
            if size >= MAX_PIECE_BYTES {
                break PieceEnd::Piece;
            }
            match tokio::time::timeout_at(until, self.body.next()).await {
                Err(_) => break PieceEnd::Piece,
                Ok(None) => break PieceEnd::Body,
                Ok(Some(Ok(bytes))) => next = Some(bytes),
                Ok(Some(Err(error))) => break PieceEnd::Broken(body_error(&error)),
            }
        };
        writer.finish().await?;
        // A caller who loses the permission during a long upload stores no further piece.
        check_push_again(&self.backend, &self.repository_path).await?;
        self.upload = append_piece(&self.backend, &self.upload.uuid, piece, size, &hashing).await?;
        self.hashing = hashing;
        Ok(end)
    }
}

/// Records the key of the next piece before it is written.
async fn create_piece(backend: &Backend, upload: &Upload) -> Result<Piece, RegistryError> {
    let (uuid, unique) = (&upload.uuid, hex::encode(rand::random::<[u8; 8]>()));
    let folder = uuid.get(..2).unwrap_or_default();
    let row = ActiveModel {
        upload_id: Set(Some(upload.id)),
        key: Set(format!("{FOLDER}/{folder}/{uuid}/{unique}")),
        start: Set(upload.received),
        size: Set(0),
        created_at: Set(now()),
        ..Default::default()
    };
    let inserted = row.insert(backend.database.write()).await;
    inserted.map_err(|error| match Violation::of(&error) {
        Some(Violation::ForeignKey(_)) => RegistryError::unknown_upload(),
        _ => error.into(),
    })
}

/// Adds a written piece to the upload, unless a concurrent request has advanced it.
async fn append_piece(
    backend: &Backend,
    uuid: &str,
    piece: &Piece,
    size: u64,
    hashing: &DigestState,
) -> Result<Upload, RegistryError> {
    let size = i64::try_from(size).map_err(Error::internal)?;
    let settled = async |transaction: &DatabaseTransaction| {
        let found = registry_uploads::lock(transaction, uuid).await?;
        let upload = found.ok_or_else(RegistryError::unknown_upload)?;
        if upload.received != piece.start {
            let received = u64::try_from(upload.received).unwrap_or(0);
            return Err(RegistryError::OutOfOrder(received));
        }
        let mut row = piece.clone().into_active_model();
        row.size = Set(size);
        row.stored_at = Set(Some(now()));
        row.update(transaction).await?;
        let pieces = upload.pieces + 1;
        let mut upload = upload.into_active_model();
        upload.received = Set(piece.start + size);
        upload.pieces = Set(pieces);
        upload.hash_state = Set(hashing.state());
        upload.updated_at = Set(now());
        Ok(upload.update(transaction).await?)
    };
    backend.database.transaction(settled).await
}

/// Deletes a piece that was not added to the upload. It is detached first: if it was added after all, because
/// the reply to a commit was lost, it remains.
async fn delete_piece(backend: &Backend, piece: Piece) {
    let detached = Entity::update_many()
        .col_expr(Column::UploadId, Expr::value(None::<i64>))
        .filter(Column::Id.eq(piece.id))
        .filter(Column::StoredAt.is_null())
        .exec(backend.database.write())
        .await;
    match detached {
        Ok(detached) if detached.rows_affected > 0 => garbage_collection::discard(backend, vec![piece]).await,
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, key = piece.key, "failed to detach a piece of a blob"),
    }
}

/// Returns the next bytes of a body, or `None` at its end.
async fn next_bytes(body: &mut BodyStream) -> Result<Option<Bytes>, RegistryError> {
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|error| body_error(&error))?;
        if !bytes.is_empty() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

fn body_error(error: &std::io::Error) -> RegistryError {
    tracing::debug!(%error, "blob upload was interrupted");
    RegistryError::new(
        RegistryErrorCode::BlobUploadInvalid,
        "the body is incomplete; resume the upload with the missing bytes",
    )
}
