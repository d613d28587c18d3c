//! The published files: the OpenAPI documents and the documentation portal, compressed when the package is built.
//!
//! The document has four forms: as authored, its 3.1.1 form, and both reduced for SDK generators.

use std::borrow::Cow;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Version of OpenAPI of a published document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// OpenAPI 3.0.3, as authored.
    V3_0,
    /// OpenAPI 3.1.1, derived.
    V3_1,
}

/// Content of a published document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The complete document.
    Complete,
    /// The document without the parts that the runtime of a generated client handles.
    Sdk,
}

/// Format of a published document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON with a trailing newline.
    Json,
    /// YAML.
    Yaml,
}

/// Path of the facts about the document, which are not served.
pub const FACTS: &str = "openapi-facts.txt";

/// A published file.
#[derive(Debug)]
pub struct PublishedFile {
    /// Path without a leading slash, such as `docs/roles`.
    pub path: &'static str,
    /// The media type.
    pub media_type: &'static str,
    /// Digest of the content.
    pub tag: &'static str,
    /// Number of bytes of the content.
    pub size: usize,
    /// Range of the gzip member in [`BLOB`].
    start: usize,
    end: usize,
    /// Position of the content in the decompressed member.
    offset: usize,
    /// Whether the member has other files too.
    is_shared: bool,
}

/// The gzip members of all files. Small files share a member.
static BLOB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/published.bin"));
/// All files, sorted by path.
static FILES: &[PublishedFile] = include!(concat!(env!("OUT_DIR"), "/published.rs"));
/// The content of a document that does not exist.
static EMPTY: PublishedFile = PublishedFile {
    path: "",
    media_type: "text/plain",
    tag: "",
    size: 0,
    start: 0,
    end: 0,
    offset: 0,
    is_shared: false,
};

impl PublishedFile {
    /// Returns the content as one gzip member. That of a small file is compressed for each call.
    ///
    /// # Errors
    /// Those of [`PublishedFile::content`].
    pub fn gzip(&self) -> std::io::Result<Cow<'static, [u8]>> {
        if !self.is_shared {
            return Ok(Cow::Borrowed(self.member()));
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.content()?)?;
        encoder.finish().map(Cow::Owned)
    }

    /// Decompresses the content.
    ///
    /// # Errors
    /// Embedded bytes that are not a gzip member, or are too short.
    pub fn content(&self) -> std::io::Result<Vec<u8>> {
        let mut decoder = flate2::read::GzDecoder::new(self.member());
        std::io::copy(
            &mut decoder.by_ref().take(self.offset as u64),
            &mut std::io::sink(),
        )?;
        let mut content = vec![0; self.size];
        decoder.read_exact(&mut content)?;
        Ok(content)
    }

    fn member(&self) -> &'static [u8] {
        BLOB.get(self.start..self.end).unwrap_or_default()
    }
}

/// Returns all published files, sorted by path.
#[must_use]
pub fn files() -> &'static [PublishedFile] {
    FILES
}

/// Returns the published file with a path.
#[must_use]
pub fn find(path: &str) -> Option<&'static PublishedFile> {
    let at = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(at)
}

/// Returns a published document.
#[must_use]
pub fn document(version: Version, extent: Extent, format: Format) -> &'static PublishedFile {
    let path = match (version, extent, format) {
        (Version::V3_0, Extent::Complete, Format::Json) => "openapi.json",
        (Version::V3_0, Extent::Complete, Format::Yaml) => "openapi.yaml",
        (Version::V3_0, Extent::Sdk, Format::Json) => "openapi-sdk.json",
        (Version::V3_0, Extent::Sdk, Format::Yaml) => "openapi-sdk.yaml",
        (Version::V3_1, Extent::Complete, Format::Json) => "openapi-3.1.json",
        (Version::V3_1, Extent::Complete, Format::Yaml) => "openapi-3.1.yaml",
        (Version::V3_1, Extent::Sdk, Format::Json) => "openapi-3.1-sdk.json",
        (Version::V3_1, Extent::Sdk, Format::Yaml) => "openapi-3.1-sdk.yaml",
    };
    // A unit test checks that all documents exist.
    find(path).unwrap_or(&EMPTY)
}

/// Returns the text of a published document.
///
/// # Errors
/// Those of [`PublishedFile::content`].
pub fn document_text(version: Version, extent: Extent, format: Format) -> std::io::Result<String> {
    let content = document(version, extent, format).content()?;
    String::from_utf8(content).map_err(std::io::Error::other)
}

/// Returns the text of a published file.
///
/// # Errors
/// An unknown path, and those of [`PublishedFile::content`].
pub fn file_text(path: &str) -> std::io::Result<String> {
    let file = find(path).ok_or(std::io::ErrorKind::NotFound)?;
    String::from_utf8(file.content()?).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_documents_exist() {
        for version in [Version::V3_0, Version::V3_1] {
            for extent in [Extent::Complete, Extent::Sdk] {
                for format in [Format::Json, Format::Yaml] {
                    let file = document(version, extent, format);
                    assert!(file.size > 1 << 20, "{version:?} {extent:?} {format:?}");
                }
            }
        }
    }

    #[test]
    fn pages_of_the_documentation_take_less_than_four_megabytes() {
        let pages = files().iter().filter(|file| file.path.starts_with("docs/"));
        let members: std::collections::BTreeSet<_> = pages.map(|file| (file.start, file.end)).collect();
        let bytes: usize = members.iter().map(|(start, end)| end - start).sum();
        assert!((1..4_000_000).contains(&bytes), "{bytes} bytes");
    }

    #[test]
    fn all_files_are_complete() {
        assert!(files().len() > 1_000);
        for file in files() {
            let content = file.content().expect(file.path);
            assert_eq!(content.len(), file.size, "{}", file.path);
            let mut decompressed = Vec::new();
            let gzip = file.gzip().expect(file.path);
            flate2::read::GzDecoder::new(gzip.as_ref())
                .read_to_end(&mut decompressed)
                .expect(file.path);
            assert!(decompressed == content, "{}", file.path);
            assert!(
                std::ptr::eq(find(file.path).expect(file.path), file),
                "{}",
                file.path
            );
        }
        assert!(find("docs/nothing").is_none());
    }
}
