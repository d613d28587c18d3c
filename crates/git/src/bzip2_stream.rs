//! Compression of streams with bzip2.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use bzip2::Compression;
use bzip2::write::BzEncoder;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Compresses the chunks of a channel and sends them to another. An error of the input ends the output. Ends without an
/// error if the receiver pauses for longer than `idle` or is gone.
///
/// Each chunk is compressed on a thread for blocking work, which is not occupied while a slow client receives. Small blocks
/// limit the memory of each stream to about one megabyte.
pub(super) async fn compress(
    mut input: mpsc::Receiver<io::Result<Bytes>>,
    output: mpsc::Sender<io::Result<Bytes>>,
    idle: Duration,
) {
    let send = async |chunk| matches!(timeout(idle, output.send(chunk)).await, Ok(Ok(())));
    let mut encoder = BzEncoder::new(Vec::new(), Compression::fast());
    while let Some(chunk) = input.recv().await {
        let compressed = match chunk {
            Ok(bytes) => compress_chunk(encoder, bytes).await,
            Err(error) => Err(error),
        };
        let (next, bytes) = match compressed {
            Ok(compressed) => compressed,
            Err(error) => {
                send(Err(error)).await;
                return;
            }
        };
        encoder = next;
        if !bytes.is_empty() && !send(Ok(bytes.into())).await {
            return;
        }
    }
    let rest = tokio::task::spawn_blocking(move || encoder.finish()).await;
    send(rest.unwrap_or_else(|error| Err(error.into())).map(Bytes::from)).await;
}

/// Compresses a chunk, and returns the compressed bytes that are available.
async fn compress_chunk(
    mut encoder: BzEncoder<Vec<u8>>,
    chunk: Bytes,
) -> io::Result<(BzEncoder<Vec<u8>>, Vec<u8>)> {
    let compressed = tokio::task::spawn_blocking(move || {
        encoder.write_all(&chunk)?;
        let available = std::mem::take(encoder.get_mut());
        Ok((encoder, available))
    });
    compressed.await?
}
