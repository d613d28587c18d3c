//! Blobs: file contents by ID, read at once or streamed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::error::absent;
use super::memory_budget::MemoryNeed;
use super::process::{Program, RunningProgram};
use super::{Error, OBJECT_TOO_LARGE, Oid, Repository, Result, object_memory};

/// Blobs up to this size in bytes are read into memory; larger ones are streamed from a process.
const MAX_IN_MEMORY: u64 = 4 << 20;

/// Blobs up to this size in bytes are cached.
const MAX_CACHED: usize = 64 << 10;

/// A file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The blob ID.
    pub id: Oid,
    /// The length in bytes.
    pub size: u64,
    /// The content.
    pub data: Bytes,
}

/// File content that can be read once. If the content ends before [`Self::size`] bytes, the last read returns
/// an error.
pub struct BlobStream {
    size: u64,
    remaining: u64,
    source: Pin<Box<dyn AsyncRead + Send>>,
    // Kills the process when the stream is dropped, even if it was not read to the end.
    _process: Option<RunningProgram>,
}

impl BlobStream {
    fn of(data: Bytes) -> Self {
        let size = data.len() as u64;
        Self {
            size,
            remaining: size,
            source: Box::pin(std::io::Cursor::new(data)),
            _process: None,
        }
    }

    /// Returns the length of the whole content in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl AsyncRead for BlobStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let result = self.source.as_mut().poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = result {
            let read = (buf.filled().len() - before) as u64;
            self.remaining = self.remaining.saturating_sub(read);
            if read == 0 && self.remaining > 0 {
                return Poll::Ready(Err(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
        result
    }
}

impl Repository {
    /// Returns the content of a blob of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`], or [`Error::LimitExceeded`] if the blob is longer.
    pub async fn blob(&self, id: Oid, limit: u64) -> Result<Blob> {
        let read = self.git2(move |repository| {
            let odb = repository.odb()?;
            let size = blob_size(&odb, id)?;
            if size > limit {
                return Err(Error::LimitExceeded("the file is too large"));
            }
            small_blob(repository, id, size)
        });
        let (size, data) = match read.await? {
            SmallBlob::Read(data) => (data.len() as u64, data),
            SmallBlob::TooLarge { size, memory } => {
                let length = usize::try_from(size).map_err(|_| Error::LimitExceeded(OBJECT_TOO_LARGE))?;
                let program = cat_file(id, memory).output_limit(length);
                (size, self.run(program).await?.stdout.into())
            }
        };
        Ok(Blob { id, size, data })
    }

    /// Returns the length of a blob in bytes without reading its content.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if no blob has the ID.
    pub async fn blob_size(&self, id: Oid) -> Result<u64> {
        self.git2(move |repository| blob_size(&repository.odb()?, id))
            .await
    }

    /// Returns the lengths of blobs in bytes, in the given order, without reading their content.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if one of the IDs is not a blob.
    pub async fn blob_sizes(&self, ids: Vec<Oid>) -> Result<Vec<u64>> {
        self.git2(move |repository| {
            let odb = repository.odb()?;
            ids.into_iter().map(|id| blob_size(&odb, id)).collect()
        })
        .await
    }

    /// Returns the first `limit` bytes of each blob, in the given order. A blob that takes much memory is not opened
    /// and returns no bytes.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if one of the IDs is not a blob.
    pub async fn blob_starts(&self, ids: Vec<Oid>, limit: usize) -> Result<Vec<Bytes>> {
        self.git2(move |repository| {
            let odb = repository.odb()?;
            let start = |id: Oid| {
                let size = blob_size(&odb, id)?;
                match small_blob(repository, id, size)? {
                    SmallBlob::Read(data) => Ok(data.slice(..data.len().min(limit))),
                    SmallBlob::TooLarge { .. } => Ok(Bytes::new()),
                }
            };
            ids.into_iter().map(start).collect()
        })
        .await
    }

    /// Opens a blob of any length for reading. Large blobs are never loaded into memory.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`], or an error of starting the process.
    pub async fn open_blob(&self, id: Oid) -> Result<BlobStream> {
        let key = (self.id().clone(), id);
        if let Some(data) = self.shared().caches.blobs.get(&key) {
            return Ok(BlobStream::of(data));
        }
        let read = self.git2(move |repository| {
            let size = blob_size(&repository.odb()?, id)?;
            small_blob(repository, id, size)
        });
        let (size, memory) = match read.await? {
            SmallBlob::Read(data) => {
                if data.len() <= MAX_CACHED {
                    self.shared().caches.blobs.insert(key, data.clone());
                }
                return Ok(BlobStream::of(data));
            }
            SmallBlob::TooLarge { size, memory } => (size, memory),
        };
        let mut process = self.start_transfer(cat_file(id, memory)).await?;
        let source = process.take_stdout().ok_or(Error::Worker)?;
        Ok(BlobStream {
            size,
            remaining: size,
            source: Box::pin(source),
            _process: Some(process),
        })
    }

    /// Returns the SHA-256 of a blob's content in lowercase hex, cached by blob ID.
    ///
    /// # Errors
    /// As [`Self::open_blob`], or [`Error::Io`] if reading fails.
    pub async fn content_sha256(&self, id: Oid) -> Result<Arc<str>> {
        if let Some(digest) = self.shared().caches.digests.get(&id) {
            return Ok(digest);
        }
        let mut stream = self.open_blob(id).await?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            hasher.update(buffer.get(..read).unwrap_or_default());
        }
        let digest: Arc<str> = hex::encode(hasher.finalize()).into();
        self.shared().caches.digests.insert(id, Arc::clone(&digest));
        Ok(digest)
    }
}

/// A blob, if it can be read in this process.
enum SmallBlob {
    Read(Bytes),
    TooLarge {
        size: u64,
        /// Memory that a program needs to read it, in bytes.
        memory: u64,
    },
}

/// Reads a blob of a known size if that takes little memory.
fn small_blob(repository: &git2::Repository, id: Oid, size: u64) -> Result<SmallBlob> {
    let memory = object_memory::needed(repository, id)?;
    if size > MAX_IN_MEMORY || memory.bytes > object_memory::MAX_IN_PROCESS_BYTES {
        // Git streams a blob that is not stored as a delta.
        let memory = if memory.is_delta { memory.bytes } else { 0 };
        return Ok(SmallBlob::TooLarge { size, memory });
    }
    let odb = repository.odb()?;
    let object = odb.read(id).map_err(absent)?;
    Ok(SmallBlob::Read(Bytes::copy_from_slice(object.data())))
}

/// Returns the program that writes a blob to its standard output.
fn cat_file(id: Oid, memory: u64) -> Program {
    Program::new("cat-file")
        .config("core.bigFileThreshold", "1m")
        .memory(MemoryNeed::Object(memory))
        .flag("blob")
        .id(id)
}

pub(super) fn blob_size(odb: &git2::Odb<'_>, id: Oid) -> Result<u64> {
    match odb.read_header(id).map_err(absent)? {
        (size, git2::ObjectType::Blob) => Ok(size as u64),
        _ => Err(Error::ObjectNotFound),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use crate::testing::Fixture;
    use crate::{Error, Oid};

    #[tokio::test]
    async fn blobs_are_read_loose_and_packed_at_any_size() {
        let fixture = Fixture::new("main").await;
        let large: Vec<u8> = (0..6_000_000_u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        let contents = [b"".to_vec(), b"small\0bytes\n".to_vec(), large];
        let mut ids = Vec::new();
        for content in &contents {
            let id = fixture.git_stdin(&["hash-object", "-w", "--stdin"], content);
            ids.push(Oid::from_str(id.trim()).unwrap());
        }
        for packed in [false, true] {
            if packed {
                let names: String = ids.iter().map(|id| format!("{id}\n")).collect();
                fixture.git_stdin(&["pack-objects", "-q", "objects/pack/pack"], names.as_bytes());
                fixture.git(&["prune-packed", "-q"]);
            }
            for (id, content) in ids.iter().zip(&contents) {
                let size = content.len() as u64;
                assert_eq!(fixture.repository.blob_size(*id).await.unwrap(), size);
                assert_eq!(fixture.repository.blob(*id, size).await.unwrap().data, content);
                let mut stream = fixture.repository.open_blob(*id).await.unwrap();
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.unwrap();
                assert!(read == *content && stream.size() == size);
            }
        }
        assert!(matches!(
            fixture.repository.blob(ids[1], 3).await,
            Err(Error::LimitExceeded(_))
        ));
        assert!(matches!(
            fixture.repository.blob(Oid::ZERO_SHA1, 3).await,
            Err(Error::ObjectNotFound)
        ));
        let digest = fixture.repository.content_sha256(ids[0]).await.unwrap();
        assert_eq!(
            &*digest,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(fixture.repository.content_sha256(ids[0]).await.unwrap(), digest);
    }

    #[tokio::test]
    async fn truncated_blob_stream_fails() {
        let fixture = Fixture::new("main").await;
        let id = fixture.git_stdin(&["hash-object", "-w", "--stdin"], &vec![7; 5 << 20]);
        let mut stream = fixture
            .repository
            .open_blob(Oid::from_str(id.trim()).unwrap())
            .await
            .unwrap();
        stream.remaining += 1;
        assert!(stream.read_to_end(&mut Vec::new()).await.is_err());
    }
}
