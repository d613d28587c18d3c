//! Object storage for files outside the repositories, on the local file system or in an S3 bucket.
//!
//! The server builds keys from IDs and random digits, never from text of a caller. Files are written
//! atomically.

mod instance_marker;
mod s3;
mod sweep_progress;
mod unknown_objects;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{
    GetOptions, GetRange, GetResult, GetResultPayload, MultipartUpload, ObjectStore, ObjectStoreExt,
    UploadPart,
};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};
use tokio_util::io::{ReaderStream, StreamReader};

pub(crate) use sweep_progress::SweepProgress;
pub use unknown_objects::UnknownObjects;
pub use writer::ObjectWriter;

/// Default directory, below the data directory.
pub const DIRECTORY: &str = "objects";
/// Directory for incomplete files, below the data directory.
pub const SPOOL: &str = "tmp";
/// Bytes of a file that are buffered at a time. Buckets accept no smaller parts, except for the last.
const PART_BYTES: usize = 5 << 20;
/// Bytes that are buffered while a file is written on arrival, for storage that accepts parts of any size.
const SMALL_PART_BYTES: usize = 1 << 20;
/// Bytes that are read from a disk at a time.
const READ_BYTES: usize = 256 << 10;

/// Error of the object storage.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is invalid.
    #[error("the address must be file:///PATH or s3://BUCKET/PREFIX")]
    Address,
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] object_store::Error),
    /// A local file operation failed.
    #[error("{0}")]
    File(#[from] std::io::Error),
}

impl Error {
    /// Returns whether the key does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Storage(object_store::Error::NotFound { .. }))
    }
}

/// A file in the object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The key.
    pub key: String,
    /// The size in bytes.
    pub size: u64,
    /// Changes when the file is replaced.
    pub version: String,
}

/// Reads a file of the object storage.
pub type ObjectReader = StreamReader<BoxStream<'static, std::io::Result<Bytes>>, Bytes>;

/// Client of the object storage. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct ObjectStorage {
    store: Arc<dyn ObjectStore>,
    spool: PathBuf,
    /// Directory of the files, if the storage is local.
    directory: Option<PathBuf>,
    /// Size in bytes of the parts that a file is written in.
    part: usize,
}

impl ObjectStorage {
    /// Opens the storage at an address, or below the data directory by default.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or the directory cannot be created.
    pub fn open(address: Option<&str>, data_dir: &Path) -> Result<Self, Error> {
        let spool = data_dir.join(SPOOL);
        std::fs::create_dir_all(&spool)?;
        let (store, directory) = match address {
            Some(address) if address.starts_with("s3:") => (s3::open(address)?, None),
            Some(address) => {
                let path = local_path(address)?;
                (directory(&path)?, Some(path))
            }
            None => {
                let path = data_dir.join(DIRECTORY);
                (directory(&path)?, Some(path))
            }
        };
        let part = if directory.is_some() {
            SMALL_PART_BYTES
        } else {
            PART_BYTES
        };
        Ok(Self {
            store,
            spool,
            directory,
            part,
        })
    }

    /// Opens the storage at an address to read it, or returns `None` if it is a directory that does not exist. Creates
    /// nothing.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or the directory cannot be opened.
    pub fn open_existing(address: &str) -> Result<Option<Self>, Error> {
        let path = match address.starts_with("s3:") {
            true => None,
            false => Some(local_path(address)?),
        };
        let store = match &path {
            None => s3::open(address)?,
            Some(path) if path.try_exists()? => directory(path)?,
            Some(_) => return Ok(None),
        };
        Ok(Some(Self {
            store,
            spool: std::env::temp_dir(),
            directory: path,
            part: PART_BYTES,
        }))
    }

    /// Creates a temporary file for incoming data. It has no name, so the operating system always removes it.
    ///
    /// # Errors
    /// Returns an error if a file operation fails.
    pub fn spool(&self) -> std::io::Result<std::fs::File> {
        tempfile::tempfile_in(&self.spool)
    }

    /// Stores the rest of a file under a key.
    ///
    /// # Errors
    /// Returns an error if the storage fails; nothing is stored then.
    pub async fn put(&self, key: &str, file: File) -> Result<(), Error> {
        self.store_object(&Key::from(key), file).await
    }

    /// Stores the content of a source: a small one in one request, a larger one in parts that become visible
    /// only at the end.
    async fn store_object(&self, key: &Key, mut source: impl AsyncRead + Unpin) -> Result<(), Error> {
        let first = read_part(&mut source).await?;
        if first.len() < PART_BYTES {
            self.store.put(key, first.into()).await?;
            return Ok(());
        }
        let mut parts = MultipartGuard::begin(&self.store, key).await?;
        let result = parts.copy_parts(first, source).await;
        if result.is_err() {
            parts.abort().await;
        }
        result
    }

    /// Reads the bytes under a key from `start` (inclusive) to `end` (exclusive).
    #[must_use]
    pub fn read(&self, key: &str, start: u64, end: u64) -> BoxStream<'static, std::io::Result<Bytes>> {
        let (store, key) = (Arc::clone(&self.store), Key::from(key));
        if start >= end {
            return futures_util::stream::empty().boxed();
        }
        let opened = async move {
            let options = GetOptions {
                range: Some(GetRange::Bounded(start..end)),
                ..GetOptions::default()
            };
            let found = store
                .get_opts(&key, options)
                .await
                .map_err(std::io::Error::other)?;
            stream(found).await
        };
        futures_util::stream::once(opened).try_flatten().boxed()
    }

    /// Returns the length in bytes of the file under a key, or `None` if the key does not exist.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, Error> {
        match self.store.head(&Key::from(key)).await.map_err(Error::from) {
            Err(error) if error.is_not_found() => Ok(None),
            found => Ok(Some(found?.size)),
        }
    }

    /// Deletes the file under a key. A missing key is not an error.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn delete(&self, key: &str) -> Result<(), Error> {
        match self.store.delete(&Key::from(key)).await.map_err(Error::from) {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    /// As [`Self::delete`], and removes the parts left by a server that was killed during the write. The key
    /// must have no active writer.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn discard(&self, key: &str) -> Result<(), Error> {
        if let Some(directory) = &self.directory {
            let path = directory.join(Key::from(key).as_ref());
            tokio::task::spawn_blocking(move || remove_staged(&path))
                .await
                .map_err(std::io::Error::other)??;
        }
        self.delete(key).await
    }

    /// Deletes all files whose key starts with `folder` and a slash, and the parts of files that a killed server left
    /// there.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn delete_below(&self, folder: &str) -> Result<(), Error> {
        if let Some(directory) = &self.directory {
            // A list of the files would omit the parts.
            return match tokio::fs::remove_dir_all(directory.join(Key::from(folder).as_ref())).await {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            };
        }
        let found = self.store.list(Some(&Key::from(folder)));
        let found: Vec<Key> = found.map_ok(|object| object.location).try_collect().await?;
        // A bucket deletes many objects with one request.
        let mut removed = self
            .store
            .delete_stream(futures_util::stream::iter(found).map(Ok).boxed());
        while let Some(outcome) = removed.next().await {
            match outcome.map_err(Error::from) {
                Err(error) if error.is_not_found() => {}
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    /// Returns all keys, or those below a folder.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn keys(&self, folder: Option<&str>) -> Result<Vec<String>, Error> {
        let folder = folder.map(Key::from);
        let found = self.store.list(folder.as_ref());
        Ok(found
            .map_ok(|object| object.location.to_string())
            .try_collect()
            .await?)
    }

    /// Returns the sizes of all files below a folder by key.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn sizes(&self, folder: &str) -> Result<HashMap<String, u64>, Error> {
        let found = self.store.list(Some(&Key::from(folder)));
        let found = found.map_ok(|object| (object.location.to_string(), object.size));
        Ok(found.try_collect().await?)
    }

    /// Returns all files in no particular order, without the object that names the instance.
    pub fn list(&self) -> BoxStream<'static, Result<ObjectInfo, Error>> {
        let found = self.store.list(None).map_ok(|object| ObjectInfo {
            key: object.location.to_string(),
            size: object.size,
            version: object.e_tag.unwrap_or_else(|| object.last_modified.to_rfc3339()),
        });
        let found = found.try_filter(|object| std::future::ready(object.key != instance_marker::MARKER));
        found.map_err(Error::from).boxed()
    }

    /// Opens the file under a key.
    ///
    /// # Errors
    /// Returns an error if the storage fails; see [`Error::is_not_found`].
    pub async fn reader(&self, key: &str) -> Result<ObjectReader, Error> {
        let found = self.store.get(&Key::from(key)).await?;
        Ok(StreamReader::new(stream(found).await?))
    }

    /// Returns the kind of the storage.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.directory {
            Some(_) => "directory",
            None => "bucket",
        }
    }
}

/// Returns the path of the address of a directory.
fn local_path(address: &str) -> Result<PathBuf, Error> {
    let path = address.strip_prefix("file://").map(PathBuf::from);
    path.filter(|path| path.is_absolute()).ok_or(Error::Address)
}

/// Opens a directory as a storage, creating it if needed.
fn directory(path: &Path) -> Result<Arc<dyn ObjectStore>, Error> {
    std::fs::create_dir_all(path)?;
    let store = LocalFileSystem::new_with_prefix(path)?
        .with_automatic_cleanup(true)
        .with_fsync(true);
    Ok(Arc::new(store))
}

/// Reads the next piece of a source. Only the last piece is shorter than the others.
async fn read_part(source: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    source.take(PART_BYTES as u64).read_to_end(&mut piece).await?;
    Ok(piece)
}

/// Streams the content of an object. Local files are read in larger pieces than the library uses.
async fn stream(found: GetResult) -> std::io::Result<BoxStream<'static, std::io::Result<Bytes>>> {
    let range = found.range.clone();
    match found.payload {
        GetResultPayload::File(file, _) => {
            let mut file = File::from_std(file);
            file.seek(std::io::SeekFrom::Start(range.start)).await?;
            let length = range.end - range.start;
            Ok(ReaderStream::with_capacity(file.take(length), READ_BYTES).boxed())
        }
        GetResultPayload::Stream(stream) => Ok(stream.map_err(std::io::Error::other).boxed()),
    }
}

/// Removes the staging files of a path; they have its name, `#` and a number.
fn remove_staged(path: &Path) -> std::io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    let is_missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if is_missing(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let staged = entry.file_name().to_str().is_some_and(|other| {
            let number = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('#'));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        if staged {
            std::fs::remove_file(entry.path())
                .or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })?;
        }
    }
    // Remove the folder if it is now empty. The storage itself removes folders only when it deletes a stored
    // file.
    let _ = std::fs::remove_dir(folder);
    Ok(())
}

/// A multipart upload. Parts that are never completed would remain forever, so dropping the upload aborts it.
/// After a killed server, the rules of the bucket or [`ObjectStorage::discard`] remove the parts.
struct MultipartGuard(Option<Box<dyn MultipartUpload>>);

impl MultipartGuard {
    async fn begin(store: &Arc<dyn ObjectStore>, key: &Key) -> Result<Self, Error> {
        Ok(Self(Some(store.put_multipart(key).await?)))
    }

    /// Uploads a part; it is stored when the future completes.
    fn put(&mut self, part: Vec<u8>) -> UploadPart {
        match &mut self.0 {
            Some(upload) => upload.put_part(part.into()),
            None => futures_util::future::ready(Ok(())).boxed(),
        }
    }

    async fn copy_parts(&mut self, first: Vec<u8>, mut source: impl AsyncRead + Unpin) -> Result<(), Error> {
        let mut next = first;
        while !next.is_empty() {
            self.put(next).await?;
            next = read_part(&mut source).await?;
        }
        self.complete().await
    }

    /// Completes the file from its parts.
    async fn complete(&mut self) -> Result<(), Error> {
        if let Some(upload) = &mut self.0 {
            upload.complete().await?;
        }
        self.0 = None;
        Ok(())
    }

    async fn abort(&mut self) {
        if let Some(mut upload) = self.0.take()
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, "failed to abort a multipart upload");
        }
    }
}

impl Drop for MultipartGuard {
    fn drop(&mut self) {
        let upload = self.0.take();
        if let Some(runtime) = upload.is_some().then(tokio::runtime::Handle::try_current)
            && let Ok(runtime) = runtime
        {
            runtime.spawn(async move { Self(upload).abort().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    async fn all(storage: &ObjectStorage, key: &str, start: u64, end: u64) -> Vec<u8> {
        let pieces: Vec<Bytes> = storage.read(key, start, end).try_collect().await.expect("bytes");
        pieces.concat()
    }

    fn spooled(storage: &ObjectStorage, bytes: &[u8]) -> File {
        let mut file = storage.spool().expect("a file");
        file.write_all(bytes).expect("writing");
        file.rewind().expect("rewinding");
        File::from_std(file)
    }

    #[tokio::test]
    async fn instance_id_is_read_and_replaced_and_not_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("objects");
        let address = format!("file://{}", path.display());
        assert!(ObjectStorage::open_existing(&address).expect("a state").is_none() && !path.exists());
        let storage = ObjectStorage::open(Some(&address), folder.path()).expect("a storage");
        assert_eq!(storage.instance_id().await.expect("a state"), None);
        for id in ["first", "second"] {
            storage.set_instance_id(id).await.expect("a marker");
            let existing = ObjectStorage::open_existing(&address).expect("a state");
            let found = existing.expect("a storage").instance_id().await;
            assert_eq!(found.expect("a state").as_deref(), Some(id));
        }
        let listed: Vec<ObjectInfo> = storage.list().try_collect().await.expect("a list");
        assert_eq!(listed, []);
    }

    #[tokio::test]
    async fn objects_can_be_stored_read_in_ranges_listed_and_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = ObjectStorage::open(None, folder.path()).expect("a storage");
        let large: Vec<u8> = (0..PART_BYTES * 2 + 17).map(|n| (n % 251) as u8).collect();
        for (key, bytes) in [
            ("a/1/empty", &b""[..]),
            ("a/1/small", b"hello"),
            ("a/11/large", &large),
        ] {
            storage.put(key, spooled(&storage, bytes)).await.expect("keeping");
            assert!(all(&storage, key, 0, bytes.len() as u64).await == bytes, "{key}");
        }
        assert_eq!(all(&storage, "a/1/small", 1, 3).await, b"el");
        let listed = async || -> Vec<ObjectInfo> {
            let mut listed: Vec<_> = storage.list().try_collect().await.expect("a list");
            listed.sort_unstable_by(|left: &ObjectInfo, right| left.key.cmp(&right.key));
            listed
        };
        let before = listed().await;
        let sizes: Vec<_> = before
            .iter()
            .map(|object| (object.key.as_str(), object.size))
            .collect();
        let length = large.len() as u64;
        assert_eq!(
            sizes,
            [("a/1/empty", 0), ("a/1/small", 5), ("a/11/large", length)]
        );
        storage
            .put("a/1/small", spooled(&storage, b"other"))
            .await
            .expect("keeping");
        let after = listed().await;
        assert!(before[0] == after[0] && before[1].version != after[1].version && before[2] == after[2]);
        let mut content = Vec::new();
        let mut reader = storage.reader("a/11/large").await.expect("a reader");
        reader.read_to_end(&mut content).await.expect("a content");
        assert!(content == large);
        storage.delete_below("a/1").await.expect("removing");
        let missing = storage.reader("a/1/small").await.map(drop);
        assert!(missing.is_err_and(|error| error.is_not_found()));
        assert_eq!(storage.keys(None).await.expect("keys"), ["a/11/large"]);
        storage.delete("a/1/small").await.expect("no error");
    }

    #[tokio::test]
    async fn dropped_spool_file_is_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = ObjectStorage::open(None, folder.path()).expect("a storage");
        drop(spooled(&storage, b"half"));
        let names = std::fs::read_dir(folder.path().join(SPOOL)).expect("a folder");
        assert_eq!(names.count(), 0);
    }

    #[test]
    fn open_rejects_invalid_storage_url() {
        let folder = tempfile::tempdir().expect("a folder");
        for address in [
            "",
            "nothing",
            "file://relative",
            "ftp://host/path",
            "s3://",
            "s3:bucket",
        ] {
            assert!(
                ObjectStorage::open(Some(address), folder.path()).is_err(),
                "{address:?}"
            );
        }
    }
}
