//! Reader of archive records from the temporary file, in batches.

use std::io::SeekFrom;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader, Take};

use crate::kernel::error::{Error, Result};
use crate::transfers::imports::archive::ByteRange;
use crate::transfers::stored_archives::thread_error;

/// Maximum records in a batch.
const MAX_BATCH_RECORDS: usize = 100;
/// Bytes after which a batch ends. A single record may exceed it.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// The records of a group and relation.
pub struct RecordReader<'a, T> {
    lines: BufReader<Take<&'a mut File>>,
    kind: PhantomData<T>,
}

impl<'a, T: DeserializeOwned> RecordReader<'a, T> {
    /// Opens the records in a byte range of the file.
    ///
    /// # Errors
    /// Returns an error if the disk fails.
    pub async fn new(file: &'a mut File, range: ByteRange) -> Result<Self> {
        file.seek(SeekFrom::Start(range.start))
            .await
            .map_err(thread_error)?;
        Ok(Self {
            lines: BufReader::new(file.take(range.end - range.start)),
            kind: PhantomData,
        })
    }

    /// Returns the next batch, or `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the disk fails.
    pub async fn next(&mut self) -> Result<Option<Vec<T>>> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut line = Vec::new();
        while records.len() < MAX_BATCH_RECORDS && bytes < MAX_BATCH_BYTES {
            line.clear();
            let read = self
                .lines
                .read_until(b'\n', &mut line)
                .await
                .map_err(thread_error)?;
            if read == 0 {
                break;
            }
            bytes += read;
            records.push(serde_json::from_slice(&line).map_err(Error::internal)?);
        }
        Ok(Some(records).filter(|records| !records.is_empty()))
    }
}
