//! Records of an archive that was read, a few at a time.

use std::io::SeekFrom;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader, Take};

use super::super::broken;
use super::opening::Stretch;
use crate::error::{Error, Result};

/// How many records are in memory at a time.
const ROWS: usize = 100;
/// How many bytes of the file these take; one may have more.
const BYTES: usize = 1 << 20;

/// The records of a group and relation.
pub struct Records<'a, T> {
    lines: BufReader<Take<&'a mut File>>,
    kind: PhantomData<T>,
}

impl<'a, T: DeserializeOwned> Records<'a, T> {
    /// Those that stand in a stretch of the file.
    ///
    /// # Errors
    /// What the disk reports.
    pub async fn new(file: &'a mut File, stretch: Stretch) -> Result<Self> {
        file.seek(SeekFrom::Start(stretch.start)).await.map_err(broken)?;
        Ok(Self {
            lines: BufReader::new(file.take(stretch.end - stretch.start)),
            kind: PhantomData,
        })
    }

    /// The next of them, at least one; nothing when none is left.
    ///
    /// # Errors
    /// What the disk reports.
    pub async fn next(&mut self) -> Result<Option<Vec<T>>> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut line = Vec::new();
        while records.len() < ROWS && bytes < BYTES {
            line.clear();
            let read = self.lines.read_until(b'\n', &mut line).await.map_err(broken)?;
            if read == 0 {
                break;
            }
            bytes += read;
            records.push(serde_json::from_slice(&line).map_err(Error::internal)?);
        }
        Ok(Some(records).filter(|records| !records.is_empty()))
    }
}
