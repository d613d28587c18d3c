//! Files that are kept beside the repositories, by key: on the local file system, or wherever the address says.
//!
//! Keys are made by the server of numbers and random digits, never of a caller's text. A file is there as a whole or
//! not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// The directory below the data directory where nothing else is said.
pub const DIRECTORY: &str = "objects";
/// The directory below the data directory for what has not wholly arrived.
const SPOOL: &str = "tmp";
/// How much of a file is in memory at a time, in bytes.
const PIECE: usize = 5 << 20;

/// Why the storage does not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address makes no sense.
    #[error("the address must be file:///PATH")]
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
        let directory = match address {
            None => data_dir.join(DIRECTORY),
            Some(address) => {
                let path = address.strip_prefix("file://").map(PathBuf::from);
                path.filter(|path| path.is_absolute()).ok_or(Error::Address)?
            }
        };
        let spool = data_dir.join(SPOOL);
        for directory in [&directory, &spool] {
            std::fs::create_dir_all(directory)?;
        }
        let store = LocalFileSystem::new_with_prefix(directory)?
            .with_automatic_cleanup(true)
            .with_fsync(true);
        Ok(Self {
            store: Arc::new(store),
            spool,
        })
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
    pub async fn put(&self, key: &str, mut file: File) -> Result<(), Error> {
        let mut writer = BufWriter::with_capacity(Arc::clone(&self.store), Key::from(key), PIECE);
        let copied = match tokio::io::copy(&mut file, &mut writer).await {
            Ok(_) => writer.shutdown().await,
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            writer.abort().await?;
            return Err(error.into());
        }
        Ok(())
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
        for key in self.keys(Some(folder)).await? {
            self.delete(&key).await?;
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
        let mut pieces = self.store.get(&key).await?.into_stream();
        let mut writer = BufWriter::with_capacity(Arc::clone(&other.store), key, PIECE);
        while let Some(piece) = pieces.next().await {
            writer.put(piece?).await?;
        }
        writer.shutdown().await?;
        Ok(())
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
        for address in ["", "nothing", "file://relative", "ftp://host/path"] {
            assert!(
                ObjectStorage::open(Some(address), folder.path()).is_err(),
                "{address:?}"
            );
        }
    }
}
