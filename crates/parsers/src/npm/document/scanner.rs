//! Separates the archive in a document from the rest of the document.
//!
//! The scanner copies a JSON text, except for the string at `_attachments.<name>.data`. The content of that string is
//! decoded from Base64 and written to an output, and an empty string remains in the copy. So the memory of the scanner does
//! not depend on the size of the archive.
//!
//! `npm deprecate` sends the manifests of all versions. From the second version on, the copy contains null for each
//! attribute of a manifest except `deprecated`, because a document with an attachment has only one version. It also
//! contains null for the attributes of provenance attachments. The copy is valid JSON if the document is; the scanner
//! does not check it, and nothing checks omitted values.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{DocumentError, PROVENANCE_SUFFIX};

/// Maximum size of a document without its archive, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 4 << 20;
/// Maximum nesting of a document.
const MAX_NESTING: usize = 64;
/// Number of objects that contain the archive.
const ARCHIVE_DEPTH: usize = 3;
/// Number of objects that contain the attributes of a manifest or of an attachment.
const ATTRIBUTE_DEPTH: usize = 3;
/// Maximum length of a key that is compared, in bytes. The names of attachments contain the name and the version of the
/// package.
const MAX_KEY_BYTES: usize = 512;
/// Number of Base64 characters that are decoded at a time. A multiple of four.
const BASE64_STEP: usize = 48 << 10;

/// Scanner of one document.
pub struct DocumentScanner<W> {
    output: W,
    /// The document without the archive.
    text: Vec<u8>,
    state: ScannerState,
    /// For each open object or list, whether it is an object.
    open: Vec<bool>,
    /// Whether the next string of an object is a key.
    expects_key: bool,
    key: Vec<u8>,
    /// Whether the last key of the root is `_attachments`.
    in_attachments: bool,
    /// Whether the last key of an attachment is `data`.
    is_data: bool,
    /// Whether the current attachment is the provenance of the package.
    is_provenance: bool,
    /// Whether the last key of the root is `versions`.
    in_versions: bool,
    /// Number of versions so far.
    versions: u64,
    /// Whether the current value is omitted.
    omits_value: bool,
    decoder: Base64Decoder,
    has_archive: bool,
    archive_bytes: u64,
}

/// A scanned document.
#[derive(Debug)]
pub struct ScannedDocument {
    /// The document, with an empty string in place of the archive.
    pub text: Vec<u8>,
    /// Size of the archive in bytes; `None` if the document has no archive.
    pub archive_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScannerState {
    /// Outside of strings.
    Structure,
    /// In a key or another copied string.
    Text,
    /// After a backslash in a copied string.
    Escape,
    /// In the string with the archive.
    Archive,
    /// After a backslash in the string with the archive.
    ArchiveEscape,
}

impl<W: Write> DocumentScanner<W> {
    /// Creates a scanner that writes the archive to `output`.
    pub fn new(output: W) -> Self {
        Self {
            output,
            text: Vec::new(),
            state: ScannerState::Structure,
            open: Vec::new(),
            expects_key: false,
            key: Vec::new(),
            in_attachments: false,
            is_data: false,
            is_provenance: false,
            in_versions: false,
            versions: 0,
            omits_value: false,
            decoder: Base64Decoder::default(),
            has_archive: false,
            archive_bytes: 0,
        }
    }

    /// Scans the next bytes of the document.
    ///
    /// # Errors
    /// Returns [`DocumentError::Invalid`] if a limit is exceeded, the archive is not Base64 or the document has several
    /// archives. Returns [`DocumentError::Io`] if the archive cannot be written.
    pub fn push<E>(&mut self, mut bytes: &[u8]) -> Result<(), DocumentError<E>> {
        while let Some((first, rest)) = bytes.split_first() {
            bytes = match self.state {
                ScannerState::Archive => self.archive(bytes)?,
                ScannerState::ArchiveEscape => {
                    // Some encoders escape slashes.
                    if *first != b'/' {
                        return Err(invalid_base64());
                    }
                    self.state = ScannerState::Archive;
                    self.decode(b"/")?;
                    rest
                }
                ScannerState::Structure => {
                    self.structure(*first)?;
                    self.copy(*first)?;
                    if *first == b':' && self.is_at_omitted_value() {
                        for byte in b"null" {
                            self.copy(*byte)?;
                        }
                        self.omits_value = true;
                    }
                    rest
                }
                ScannerState::Text => {
                    self.in_text(*first);
                    self.copy(*first)?;
                    rest
                }
                ScannerState::Escape => {
                    // A key with an escaped character equals none of the compared keys, and so is copied.
                    self.key.clear();
                    self.key.push(0);
                    self.state = ScannerState::Text;
                    self.copy(*first)?;
                    rest
                }
            };
        }
        Ok(())
    }

    /// Ends the document.
    ///
    /// # Errors
    /// Returns [`DocumentError::Invalid`] if the archive is incomplete, and [`DocumentError::Io`] if it cannot be written.
    pub fn finish<E>(mut self) -> Result<ScannedDocument, DocumentError<E>> {
        if self.state != ScannerState::Structure || !self.open.is_empty() {
            return Err(DocumentError::Invalid(
                "the body is not valid JSON: it is incomplete".to_owned(),
            ));
        }
        self.output.flush().map_err(DocumentError::Io)?;
        Ok(ScannedDocument {
            text: self.text,
            archive_bytes: self.has_archive.then_some(self.archive_bytes),
        })
    }

    fn copy<E>(&mut self, byte: u8) -> Result<(), DocumentError<E>> {
        if self.omits_value {
            return Ok(());
        }
        if self.text.len() == MAX_DOCUMENT_BYTES {
            return Err(DocumentError::Invalid(format!(
                "the document without its attachment is too large (maximum is {MAX_DOCUMENT_BYTES} bytes)"
            )));
        }
        self.text.push(byte);
        Ok(())
    }

    fn structure<E>(&mut self, byte: u8) -> Result<(), DocumentError<E>> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() == MAX_NESTING {
                    return Err(DocumentError::Invalid(format!(
                        "the document is nested too deeply (maximum is {MAX_NESTING} levels)"
                    )));
                }
                self.open.push(byte == b'{');
                self.expects_key = byte == b'{';
            }
            b'}' | b']' => {
                self.end_value();
                self.open.pop();
                self.expects_key = false;
            }
            b',' => {
                self.end_value();
                self.expects_key = self.open.last() == Some(&true);
            }
            b':' => self.expects_key = false,
            b'"' if self.is_at_archive() => {
                if std::mem::replace(&mut self.has_archive, true) {
                    let text = "the document has several attachments (maximum is 1)";
                    return Err(DocumentError::Invalid(text.to_owned()));
                }
                self.state = ScannerState::Archive;
            }
            b'"' => {
                self.key.clear();
                self.state = ScannerState::Text;
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends an omitted value at the comma or bracket after it.
    fn end_value(&mut self) {
        if self.open.len() == ATTRIBUTE_DEPTH {
            self.omits_value = false;
        }
    }

    /// Returns whether the value after the last key is an attribute to omit. A key with an escaped character can be
    /// `deprecated`, so its value is copied.
    fn is_at_omitted_value(&self) -> bool {
        let is_unread = self.versions > 1 && self.key != b"deprecated" && self.key.first() != Some(&0);
        let is_omitted = (self.in_versions && is_unread) || (self.in_attachments && self.is_provenance);
        is_omitted && self.open.len() == ATTRIBUTE_DEPTH && self.open.iter().all(|is_object| *is_object)
    }

    fn is_at_archive(&self) -> bool {
        !self.expects_key
            && !self.omits_value
            && self.in_attachments
            && self.is_data
            && self.open.len() == ARCHIVE_DEPTH
            && self.open.iter().all(|is_object| *is_object)
    }

    fn in_text(&mut self, byte: u8) {
        match byte {
            b'\\' => self.state = ScannerState::Escape,
            b'"' => {
                self.state = ScannerState::Structure;
                if self.expects_key {
                    self.end_key();
                }
            }
            _ if self.expects_key && self.key.len() < MAX_KEY_BYTES => self.key.push(byte),
            _ => {}
        }
    }

    fn end_key(&mut self) {
        match self.open.len() {
            1 => {
                self.in_attachments = self.key == b"_attachments";
                self.in_versions = self.key == b"versions";
            }
            2 if self.in_versions => self.versions += 1,
            2 => self.is_provenance = self.key.ends_with(PROVENANCE_SUFFIX.as_bytes()),
            ARCHIVE_DEPTH => self.is_data = self.key == b"data",
            _ => {}
        }
    }

    /// Decodes bytes of the archive up to the next backslash or quotation mark. Returns the bytes after it.
    fn archive<'b, E>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], DocumentError<E>> {
        let end = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'));
        let (content, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        self.decode(content)?;
        match rest.split_first() {
            None => Ok(rest),
            Some((b'"', rest)) => {
                if !self.decoder.is_complete() {
                    return Err(invalid_base64());
                }
                self.state = ScannerState::Structure;
                self.copy(b'"')?;
                Ok(rest)
            }
            Some((_, rest)) => {
                self.state = ScannerState::ArchiveEscape;
                Ok(rest)
            }
        }
    }

    fn decode<E>(&mut self, content: &[u8]) -> Result<(), DocumentError<E>> {
        for step in content.chunks(BASE64_STEP) {
            let decoded = self.decoder.push(step).ok_or_else(invalid_base64)?;
            self.archive_bytes += decoded.len() as u64;
            self.output.write_all(decoded).map_err(DocumentError::Io)?;
        }
        Ok(())
    }
}

fn invalid_base64<E>() -> DocumentError<E> {
    DocumentError::Invalid("the attachment is not valid Base64".to_owned())
}

/// Decoder of a Base64 text that arrives in pieces of any length.
#[derive(Default)]
struct Base64Decoder {
    /// Less than four characters that were not decoded, and then the characters of the current piece.
    pending: Vec<u8>,
    decoded: Vec<u8>,
    /// Whether the text has ended with padding.
    is_padded: bool,
}

impl Base64Decoder {
    /// Decodes the complete groups of four characters. Returns their bytes, or `None` if the text is invalid.
    fn push(&mut self, piece: &[u8]) -> Option<&[u8]> {
        self.decoded.clear();
        if self.is_padded && !piece.is_empty() {
            return None;
        }
        self.pending.extend_from_slice(piece);
        let complete = self.pending.len() - self.pending.len() % 4;
        let groups = self.pending.get(..complete)?;
        STANDARD.decode_vec(groups, &mut self.decoded).ok()?;
        self.is_padded = groups.ends_with(b"=");
        if self.is_padded && complete < self.pending.len() {
            return None;
        }
        self.pending.drain(..complete);
        Some(&self.decoded)
    }

    /// Returns whether the text can end here.
    fn is_complete(&self) -> bool {
        self.pending.is_empty()
    }
}
