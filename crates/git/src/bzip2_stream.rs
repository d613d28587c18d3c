//! Compression of streams with bzip2.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use bzip2::Compression;
use bzip2::write::BzEncoder;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Writes chunks to a channel, from a thread for blocking work.
pub(super) struct ChunkWriter {
    /// Receiver of the chunks.
    pub(super) chunks: mpsc::Sender<io::Result<Bytes>>,
    /// How long the receiver may pause.
    pub(super) idle: Duration,
    /// The runtime of the channel.
    pub(super) runtime: Handle,
}

impl ChunkWriter {
    fn send(&self, chunk: io::Result<Bytes>) -> io::Result<()> {
        match self.runtime.block_on(timeout(self.idle, self.chunks.send(chunk))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(Ok(Bytes::copy_from_slice(bytes)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compresses the chunks of a channel and writes them to another. An error of the input becomes the end of the output.
/// Blocks the thread, because bzip2 sorts blocks of 900,000 bytes.
pub(super) fn compress(mut input: mpsc::Receiver<io::Result<Bytes>>, output: ChunkWriter) {
    let mut encoder = BzEncoder::new(output, Compression::default());
    while let Some(chunk) = input.blocking_recv() {
        match chunk {
            Ok(bytes) => {
                if encoder.write_all(&bytes).is_err() {
                    // The client is gone or too slow. Dropping the input stops the program.
                    return;
                }
            }
            Err(error) => {
                // If this fails, there is no client that could receive the error.
                let _ = encoder.get_ref().send(Err(error));
                return;
            }
        }
    }
    // As above.
    let _ = encoder.finish();
}
