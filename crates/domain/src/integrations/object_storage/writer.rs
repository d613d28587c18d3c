//! Objects that are written as data arrives, without an intermediate file.

use bytes::Bytes;
use object_store::ObjectStoreExt;
use object_store::path::Path as Key;
use tokio::task::JoinHandle;

use super::{Error, MultipartGuard, ObjectStorage};

/// An object that is being written. It becomes visible only when [`ObjectWriter::finish`] succeeds. Dropping the
/// writer removes all parts, unless the server is killed (see [`ObjectStorage::discard`]).
pub struct ObjectWriter {
    storage: ObjectStorage,
    key: Key,
    part: Vec<u8>,
    parts: Option<MultipartGuard>,
    /// Upload of the last part. It runs while the next part is collected.
    writing: Option<JoinHandle<object_store::Result<()>>>,
}

impl ObjectStorage {
    /// Starts an object under a key.
    #[must_use]
    pub fn write(&self, key: &str) -> ObjectWriter {
        ObjectWriter {
            storage: self.clone(),
            key: Key::from(key),
            part: Vec::new(),
            parts: None,
            writing: None,
        }
    }
}

impl ObjectWriter {
    /// Appends bytes. At most two parts of the storage's part size are in memory.
    ///
    /// # Errors
    /// Returns an error if the storage fails; nothing is stored then.
    pub async fn push(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        let size = self.storage.part;
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(size - self.part.len()));
            self.part.extend_from_slice(&chunk);
            if self.part.len() == size {
                self.upload_part().await?;
            }
        }
        Ok(())
    }

    /// Completes the object and waits until it is durable.
    ///
    /// # Errors
    /// Returns an error if the storage fails; nothing is stored then.
    pub async fn finish(mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            let part = std::mem::take(&mut self.part);
            self.storage.store.put(&self.key, part.into()).await?;
            return Ok(());
        }
        if !self.part.is_empty() {
            self.upload_part().await?;
        }
        self.written().await?;
        match self.parts.take() {
            Some(mut parts) => parts.complete().await,
            None => Ok(()),
        }
    }

    async fn upload_part(&mut self) -> Result<(), Error> {
        let full = std::mem::replace(&mut self.part, Vec::with_capacity(self.storage.part));
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(MultipartGuard::begin(&self.storage.store, &self.key).await?),
        };
        let part = parts.put(full);
        self.written().await?;
        self.writing = Some(tokio::spawn(part));
        Ok(())
    }

    async fn written(&mut self) -> Result<(), Error> {
        match self.writing.take() {
            Some(writing) => Ok(writing.await.map_err(std::io::Error::other)??),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt;

    use super::*;

    async fn stored(storage: &ObjectStorage, key: &str) -> Vec<u8> {
        let size = storage.size(key).await.expect("a storage").expect("an object");
        let pieces: Vec<Bytes> = storage.read(key, 0, size).try_collect().await.expect("bytes");
        pieces.concat()
    }

    #[tokio::test]
    async fn object_writer_accepts_chunks_of_any_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = ObjectStorage::open(None, folder.path()).expect("a storage");
        let bytes: Vec<u8> = (0..storage.part * 3 + 5).map(|n| (n % 251) as u8).collect();
        for (key, length, step) in [
            ("k/empty", 0, 1),
            ("k/small", 10, 3),
            ("k/exact", storage.part * 2, storage.part),
            ("k/large", bytes.len(), 70_001),
            ("k/once", bytes.len(), bytes.len()),
        ] {
            let mut writer = storage.write(key);
            for piece in bytes[..length].chunks(step) {
                writer.push(Bytes::copy_from_slice(piece)).await.expect("writing");
            }
            assert_eq!(
                storage.size(key).await.expect("a storage"),
                None,
                "{key} too early"
            );
            writer.finish().await.expect("keeping");
            assert!(stored(&storage, key).await == bytes[..length], "{key}");
        }
    }

    #[tokio::test]
    async fn discard_deletes_parts_of_interrupted_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = ObjectStorage::open(None, folder.path()).expect("a storage");
        let mut writer = storage.write("k/a");
        let part = Bytes::from(vec![1; storage.part]);
        writer.push(part).await.expect("writing");
        writer.written().await.expect("written");
        // Simulate a killed server, which runs no destructor.
        std::mem::forget(writer);
        let directory = folder.path().join(super::super::DIRECTORY).join("k");
        assert_eq!(std::fs::read_dir(&directory).expect("a folder").count(), 1);
        storage.discard("k/a").await.expect("removing");
        assert!(!directory.exists() || std::fs::read_dir(&directory).expect("a folder").count() == 0);
        storage.discard("k/a").await.expect("no error");
    }
}
