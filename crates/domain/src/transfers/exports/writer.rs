//! Writer of archives: a blocking thread that compresses into a temporary file while records arrive in
//! pieces.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use storage::entities::now;
use tar::{Builder, Header};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::transfers::stored_archives::thread_error;

/// Bytes of a file that are buffered before they are sent to the thread.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum pieces that wait for the thread.
const MAX_WAITING_CHUNKS: usize = 2;

enum ArchiveChunk {
    /// Starts the file with this name and ends the previous one.
    Name(String),
    /// Content of the current file.
    Bytes(Vec<u8>),
    /// Ends the archive.
    End,
}

/// An archive that is being written.
pub struct ArchiveWriter {
    pieces: mpsc::Sender<ArchiveChunk>,
    gathered: Vec<u8>,
    thread: JoinHandle<io::Result<(File, u64)>>,
}

impl ArchiveWriter {
    /// Creates an empty archive.
    ///
    /// # Errors
    /// Returns an error if no temporary file can be created.
    pub fn new(backend: &Backend) -> Result<Self> {
        let (archive, entry) = (backend.objects.spool(), backend.objects.spool());
        let (archive, entry) = (archive.map_err(thread_error)?, entry.map_err(thread_error)?);
        let (pieces, arriving) = mpsc::channel(MAX_WAITING_CHUNKS);
        Ok(Self {
            pieces,
            gathered: Vec::new(),
            thread: tokio::task::spawn_blocking(move || write(archive, entry, arriving)),
        })
    }

    /// Starts a file. A file without content is left out of the archive.
    ///
    /// # Errors
    /// Returns an error if the archive cannot be written.
    pub async fn begin(&mut self, name: String) -> Result<()> {
        self.flush().await?;
        self.send(ArchiveChunk::Name(name)).await
    }

    /// Appends a record as a line to the current file.
    ///
    /// # Errors
    /// Returns an error if the archive cannot be written.
    pub async fn line(&mut self, record: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.gathered, record).map_err(Error::internal)?;
        self.gathered.push(b'\n');
        match self.gathered.len() {
            ..CHUNK_BYTES => Ok(()),
            _ => self.flush().await,
        }
    }

    /// Appends text to the current file.
    pub fn text(&mut self, text: &str) {
        self.gathered.extend_from_slice(text.as_bytes());
    }

    /// Completes the archive. Returns the file, positioned at its start, and its length in bytes.
    ///
    /// # Errors
    /// Returns an error if the archive cannot be written.
    pub async fn finish(mut self) -> Result<(File, u64)> {
        self.flush().await?;
        self.send(ArchiveChunk::End).await?;
        self.thread.await.map_err(thread_error)?.map_err(thread_error)
    }

    async fn flush(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.gathered);
        self.send(ArchiveChunk::Bytes(bytes)).await
    }

    async fn send(&mut self, piece: ArchiveChunk) -> Result<()> {
        if self.pieces.send(piece).await.is_ok() {
            return Ok(());
        }
        // The thread has ended, and its result contains the cause.
        match (&mut self.thread).await.map_err(thread_error)? {
            Err(error) => Err(thread_error(error)),
            Ok(_) => Err(thread_error("the archive is complete already")),
        }
    }
}

fn write(
    archive: File,
    mut entry: File,
    mut arriving: mpsc::Receiver<ArchiveChunk>,
) -> io::Result<(File, u64)> {
    let compressed = GzEncoder::new(BufWriter::new(archive), Compression::default());
    let mut builder = Builder::new(compressed);
    let mut name = None;
    loop {
        match arriving.blocking_recv() {
            Some(ArchiveChunk::Bytes(bytes)) => entry.write_all(&bytes)?,
            Some(ArchiveChunk::Name(next)) => {
                append(&mut builder, name.replace(next), &mut entry)?;
            }
            Some(ArchiveChunk::End) => break,
            // The writer was dropped, so the archive is not needed.
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
    append(&mut builder, name, &mut entry)?;
    let written = builder.into_inner()?.finish()?;
    let mut archive = written.into_inner().map_err(io::IntoInnerError::into_error)?;
    let size = archive.stream_position()?;
    archive.rewind()?;
    Ok((archive, size))
}

/// Copies the buffered file into the archive. The tar format requires the length before the content.
fn append(builder: &mut Builder<impl Write>, name: Option<String>, entry: &mut File) -> io::Result<()> {
    let size = entry.stream_position()?;
    let Some(name) = name.filter(|_| size > 0) else {
        return Ok(());
    };
    entry.rewind()?;
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(u64::try_from(now().timestamp()).unwrap_or(0));
    builder.append_data(&mut header, name, io::Read::take(&mut *entry, size))?;
    entry.rewind()?;
    entry.set_len(0)
}
