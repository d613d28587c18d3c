//! Downloads: bytes that a request returns instead of JSON.

use std::io::{self, Write};

use bytes::Bytes;
use futures_util::stream::BoxStream;

/// A file that a request returns: a raw file, a blob or an archive.
pub struct Download {
    /// The media type.
    pub content_type: String,
    /// The suggested file name.
    pub file_name: String,
    /// Whether the disposition is `attachment` instead of `inline`.
    pub attachment: bool,
    /// Strong entity tag without quotes, for content that never changes under its ID.
    pub etag: Option<String>,
    /// Further headers that the contract documents.
    pub headers: Vec<(&'static str, String)>,
    /// The bytes.
    pub content: DownloadContent,
}

/// Writes the content in one media type. Only the selected content is written.
pub type WriteContent = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// The bytes of a [`Download`].
pub enum DownloadContent {
    /// Content in memory. Ranges are cut out of it.
    Bytes(Bytes),
    /// Content of known length that can be read from an offset. `open` is called once, with the requested range.
    Seekable {
        /// Length in bytes.
        size: u64,
        /// Streams the bytes from `start` (inclusive) to `end` (exclusive).
        open: Box<dyn FnOnce(u64, u64) -> BoxStream<'static, io::Result<Bytes>> + Send>,
    },
    /// The same content in several media types, of which the request selects one. The first is the default.
    Alternatives(Vec<(&'static str, WriteContent)>),
    /// Content of unknown length.
    Stream(BoxStream<'static, io::Result<Bytes>>),
}
