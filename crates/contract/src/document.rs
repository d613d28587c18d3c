//! The published files: the OpenAPI documents and the documentation portal, compressed when the package is built.
//!
//! The document has four forms: as authored, its 3.1.1 form, and both reduced for SDK generators.

use std::io::Read;

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
    start: usize,
    end: usize,
}

/// The gzip members of all files.
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
};

impl PublishedFile {
    /// Returns the content as one gzip member.
    #[must_use]
    pub fn gzip(&self) -> &'static [u8] {
        BLOB.get(self.start..self.end).unwrap_or_default()
    }

    /// Decompresses the content.
    ///
    /// # Errors
    /// Embedded bytes that are not a gzip member.
    pub fn content(&self) -> std::io::Result<Vec<u8>> {
        let mut content = Vec::with_capacity(self.size);
        flate2::read::GzDecoder::new(self.gzip()).read_to_end(&mut content)?;
        Ok(content)
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
    fn all_files_have_their_recorded_size() {
        assert!(files().len() > 1_000);
        for file in files() {
            assert_eq!(file.content().expect(file.path).len(), file.size, "{}", file.path);
            assert!(
                std::ptr::eq(find(file.path).expect(file.path), file),
                "{}",
                file.path
            );
        }
        assert!(find("docs/nothing").is_none());
    }
}
