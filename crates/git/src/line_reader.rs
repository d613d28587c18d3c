//! Bounded reader of lines from a program's output.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::Result;

/// Size of one read, in bytes.
const CHUNK: usize = 64 * 1024;

/// Splits a stream into lines.
pub(super) struct LineReader<R>(BufReader<R>);

/// A line, possibly truncated, and its length.
pub(super) struct BoundedLine {
    /// The stored bytes, including the line end if it was not cut off.
    pub(super) bytes: Vec<u8>,
    /// The length of the whole line in bytes.
    pub(super) len: usize,
}

impl BoundedLine {
    /// Returns the text without its newline; bytes that are not UTF-8 are replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes)).into_owned()
    }
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(source: R) -> Self {
        Self(BufReader::with_capacity(CHUNK, source))
    }

    /// Returns the next line including `end`; at most `max_bytes` bytes are stored.
    pub(super) async fn line(&mut self, end: u8, max_bytes: usize) -> Result<Option<BoundedLine>> {
        let mut line = BoundedLine {
            bytes: Vec::new(),
            len: 0,
        };
        loop {
            let available = self.0.fill_buf().await?;
            if available.is_empty() {
                return Ok(if line.len == 0 { None } else { Some(line) });
            }
            let found = available.iter().position(|byte| *byte == end);
            let consumed = found.map_or(available.len(), |at| at + 1);
            let room = max_bytes.saturating_sub(line.bytes.len()).min(consumed);
            line.bytes
                .extend_from_slice(available.get(..room).unwrap_or_default());
            line.len += consumed;
            self.0.consume(consumed);
            if found.is_some() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_truncated_with_full_length() {
        let mut lines = LineReader::new(&b"short\n0123456789\nlast"[..]);
        let mut read = Vec::new();
        while let Some(line) = lines.line(b'\n', 6).await.unwrap() {
            read.push((line.text(), line.len));
        }
        assert_eq!(
            read,
            [
                ("short".to_owned(), 6),
                ("012345".to_owned(), 11),
                ("last".to_owned(), 4)
            ]
        );
    }
}
