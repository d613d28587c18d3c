//! Files that are kept beside the repositories, by key: on the local file system, or wherever the address says.
//!
//! Keys are made by the server of numbers and random digits, never of a caller's text. A file is there as a whole or
//! not at all.

mod s3;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

/// The directory below the data directory where nothing else is said.
pub const DIRECTORY: &str = "objects";
/// The directory below the data directory for what has not wholly arrived.
const SPOOL: &str = "tmp";
/// How much of a file is in memory at a time, in bytes; buckets take no smaller parts but the last.
const PIECE: usize = 5 << 20;

/// Why the storage does not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address makes no sense.
    #[error("the address must be file:///PATH or s3://BUCKET/PREFIX")]
    Address,
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] object_store::Error),
    /// A local file failed.
    #[error(transparent)]
    File(#[from] std::io::Error),
}

impl Error {
    /// Whether there is nothing under the key.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Storage(object_store::Error::NotFound { .. }))
    }
}

/// The storage.
#[derive(Clone, Debug)]
pub struct ObjectStorage {
    store: Arc<dyn ObjectStore>,
    spool: PathBuf,
}

impl ObjectStorage {
    /// Opens the storage at an address, or below the data directory.
    ///
    /// # Errors
    /// When the address makes no sense or the directory cannot be made.
    pub fn open(address: Option<&str>, data_dir: &Path) -> Result<Self, Error> {
        let spool = data_dir.join(SPOOL);
        std::fs::create_dir_all(&spool)?;
        let store = match address {
            Some(address) if address.starts_with("s3:") => s3::open(address)?,
            Some(address) => {
                let path = address.strip_prefix("file://").map(PathBuf::from);
                directory(path.filter(|path| path.is_absolute()).ok_or(Error::Address)?)?
            }
            None => directory(data_dir.join(DIRECTORY))?,
        };
        Ok(Self { store, spool })
    }

    /// A temporary file for what arrives. It has no name, so nothing is left of it whatever happens.
    ///
    /// # Errors
    /// What the file system says.
    pub fn spool(&self) -> std::io::Result<std::fs::File> {
        tempfile::tempfile_in(&self.spool)
    }

    /// Keeps the rest of a file under a key.
    ///
    /// # Errors
    /// What the storage says; nothing is kept then.
    pub async fn put(&self, key: &str, file: File) -> Result<(), Error> {
        self.keep(&Key::from(key), file).await
    }

    /// Keeps what a source gives: a small one in one step, a larger one in parts that become a file only at the end.
    async fn keep(&self, key: &Key, mut source: impl AsyncRead + Unpin) -> Result<(), Error> {
        let first = piece(&mut source).await?;
        if first.len() < PIECE {
            self.store.put(key, first.into()).await?;
            return Ok(());
        }
        let mut parts = Parts(Some(self.store.put_multipart(key).await?));
        match parts.take_over(first, source).await {
            Ok(()) => {
                parts.0 = None;
                Ok(())
            }
            Err(error) => {
                parts.abort().await;
                Err(error)
            }
        }
    }

    /// The bytes under a key, from `start` (inclusive) to `end` (exclusive).
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
            Ok::<_, std::io::Error>(found.into_stream().map_err(std::io::Error::other))
        };
        futures_util::stream::once(opened).try_flatten().boxed()
    }

    /// The length of what is under a key, in bytes; nothing when there is none.
    ///
    /// # Errors
    /// What the storage says.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, Error> {
        match self.store.head(&Key::from(key)).await.map_err(Error::from) {
            Err(error) if error.is_not_found() => Ok(None),
            found => Ok(Some(found?.size)),
        }
    }

    /// Removes what is under a key; what is not there is no error.
    ///
    /// # Errors
    /// What the storage says.
    pub async fn delete(&self, key: &str) -> Result<(), Error> {
        match self.store.delete(&Key::from(key)).await.map_err(Error::from) {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    /// Removes everything whose key begins with `folder` and a slash.
    ///
    /// # Errors
    /// What the storage says.
    pub async fn delete_below(&self, folder: &str) -> Result<(), Error> {
        let found = self.store.list(Some(&Key::from(folder)));
        let found: Vec<Key> = found.map_ok(|object| object.location).try_collect().await?;
        // A bucket removes many with one request.
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

    /// All keys, or those below a folder.
    ///
    /// # Errors
    /// What the storage says.
    pub async fn keys(&self, folder: Option<&str>) -> Result<Vec<String>, Error> {
        let folder = folder.map(Key::from);
        let found = self.store.list(folder.as_ref());
        Ok(found
            .map_ok(|object| object.location.to_string())
            .try_collect()
            .await?)
    }

    /// Copies what is under a key into another storage.
    ///
    /// # Errors
    /// What either storage says.
    pub async fn copy_to(&self, key: &str, other: &Self) -> Result<(), Error> {
        let key = Key::from(key);
        let pieces = self.store.get(&key).await?.into_stream();
        other.keep(&key, StreamReader::new(pieces)).await
    }
}

/// A directory as a storage, made where it is missing.
fn directory(path: PathBuf) -> Result<Arc<dyn ObjectStore>, Error> {
    std::fs::create_dir_all(&path)?;
    let store = LocalFileSystem::new_with_prefix(path)?
        .with_automatic_cleanup(true)
        .with_fsync(true);
    Ok(Arc::new(store))
}

/// The next piece of a source; only the last is shorter than the others.
async fn piece(source: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    source.take(PIECE as u64).read_to_end(&mut piece).await?;
    Ok(piece)
}

/// A file on its way into the storage in parts. Parts that never become a file would lie there for ever, so they are
/// given up whatever happens to whoever sends them; those of a server that is killed are left to the bucket's own rules.
struct Parts(Option<Box<dyn MultipartUpload>>);

impl Parts {
    async fn take_over(&mut self, first: Vec<u8>, mut source: impl AsyncRead + Unpin) -> Result<(), Error> {
        let Some(upload) = &mut self.0 else { return Ok(()) };
        let mut next = first;
        while !next.is_empty() {
            upload.put_part(next.into()).await?;
            next = piece(&mut source).await?;
        }
        upload.complete().await?;
        Ok(())
    }

    async fn abort(&mut self) {
        if let Some(mut upload) = self.0.take()
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, "parts of a file are left in the object storage");
        }
    }
}

impl Drop for Parts {
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
    async fn files_are_kept_read_in_parts_copied_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = ObjectStorage::open(None, folder.path()).expect("a storage");
        let large: Vec<u8> = (0..PIECE * 2 + 17).map(|n| (n % 251) as u8).collect();
        for (key, bytes) in [
            ("a/1/empty", &b""[..]),
            ("a/1/small", b"hello"),
            ("a/11/large", &large),
        ] {
            storage.put(key, spooled(&storage, bytes)).await.expect("keeping");
            assert!(all(&storage, key, 0, bytes.len() as u64).await == bytes, "{key}");
        }
        assert_eq!(all(&storage, "a/1/small", 1, 3).await, b"el");
        let other = tempfile::tempdir().expect("a folder");
        let copy = ObjectStorage::open(None, other.path()).expect("a storage");
        for key in storage.keys(None).await.expect("keys") {
            storage.copy_to(&key, &copy).await.expect("copying");
        }
        storage.delete_below("a/1").await.expect("removing");
        assert_eq!(storage.keys(None).await.expect("keys"), ["a/11/large"]);
        storage.delete("a/1/small").await.expect("no error");
        assert!(all(&copy, "a/11/large", 0, large.len() as u64).await == large);
        assert_eq!(copy.keys(Some("a/1")).await.expect("keys").len(), 2);
    }

    #[tokio::test]
    async fn nothing_is_left_of_what_never_arrived() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = ObjectStorage::open(None, folder.path()).expect("a storage");
        drop(spooled(&storage, b"half"));
        let names = std::fs::read_dir(folder.path().join(SPOOL)).expect("a folder");
        assert_eq!(names.count(), 0);
    }

    #[test]
    fn addresses_that_make_no_sense_are_refused() {
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
