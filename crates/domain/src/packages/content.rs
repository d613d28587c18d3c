//! Contents of package files: objects in the object storage, with their digests.

use bytes::Bytes;
use md5::Md5;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use storage::entities::now;
use storage::entities::package_blobs::{ActiveModel, Model, attach};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::garbage_collection;
use crate::accounts::uploads::UploadedFile;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::settings::PACKAGE_FILE_SIZE;

/// Folder of all contents in the storage.
pub(super) const FOLDER: &str = "packages";
/// Bytes that are read and hashed at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A stored content that is not attached to a file yet.
#[derive(Debug)]
pub struct StoredContent {
    pub(super) blob: Model,
    /// The size in bytes.
    pub size: u64,
    /// The MD5 in hex.
    pub md5: String,
    /// The SHA-1 in hex.
    pub sha1: String,
    /// The SHA-256 in hex.
    pub sha256: String,
    /// The SHA-512 in hex.
    pub sha512: String,
}

/// Stores a received file.
///
/// # Errors
/// Returns `Error::TooLarge` if it exceeds the maximum size of a package file, and `Error::Rejected` if it is empty.
pub async fn store(backend: &Backend, file: UploadedFile) -> Result<StoredContent> {
    if file.size > backend.instance.max_package_file_bytes {
        return Err(Error::TooLarge.because_of(PACKAGE_FILE_SIZE));
    }
    store_reader(backend, file.file).await
}

/// Stores the bytes of a reader.
///
/// # Errors
/// As [`store`], and an error if the reader or the storage fails.
pub async fn store_reader(backend: &Backend, reader: impl AsyncRead + Unpin + Send) -> Result<StoredContent> {
    let blob = create_blob(backend).await?;
    match write(backend, &blob, reader).await {
        Ok(content) => Ok(content),
        Err(error) => {
            remove(backend, &blob).await;
            Err(error)
        }
    }
}

/// Deletes a content that no file uses.
pub async fn discard(backend: &Backend, content: StoredContent) {
    remove(backend, &content.blob).await;
}

/// Records the key of an object before it is written. Keys are never reused.
async fn create_blob(backend: &Backend) -> Result<Model> {
    let unique = hex::encode(rand::random::<[u8; 16]>());
    let folder = unique.get(..2).unwrap_or_default();
    let row = ActiveModel {
        key: Set(format!("{FOLDER}/{folder}/{unique}")),
        created_at: Set(now()),
        ..Default::default()
    };
    Ok(row.insert(backend.database.write()).await?)
}

async fn write(
    backend: &Backend,
    blob: &Model,
    mut reader: impl AsyncRead + Unpin + Send,
) -> Result<StoredContent> {
    let limit = backend.instance.max_package_file_bytes;
    let (mut md5, mut sha1) = (Md5::new(), Sha1::new());
    let (mut sha256, mut sha512) = (Sha256::new(), Sha512::new());
    let mut writer = backend.objects.write(&blob.key);
    let mut size = 0_u64;
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut part = (&mut reader).take(CHUNK_BYTES as u64);
        let read = part.read_to_end(&mut chunk).await.map_err(Error::internal)?;
        if read == 0 {
            break;
        }
        size = size.saturating_add(read as u64);
        if size > limit {
            return Err(Error::TooLarge.because_of(PACKAGE_FILE_SIZE));
        }
        md5.update(&chunk);
        sha1.update(&chunk);
        sha256.update(&chunk);
        sha512.update(&chunk);
        writer.push(Bytes::from(chunk)).await?;
    }
    if size == 0 {
        return Err(Error::Rejected("file is empty".into()));
    }
    writer.finish().await?;
    Ok(StoredContent {
        blob: blob.clone(),
        size,
        md5: hex::encode(md5.finalize()),
        sha1: hex::encode(sha1.finalize()),
        sha256: hex::encode(sha256.finalize()),
        sha512: hex::encode(sha512.finalize()),
    })
}

/// Condemns an object, and deletes it. If that fails, a later sweep deletes it. An object that was attached after all,
/// because the reply to a commit was lost, remains.
async fn remove(backend: &Backend, blob: &Model) {
    let removed = async {
        match attach(backend.database.write(), blob.id, None).await? {
            true => garbage_collection::remove(backend, blob).await,
            false => Ok(()),
        }
    };
    if let Err(error) = removed.await {
        tracing::warn!(%error, "failed to delete the content of a package file");
    }
}
