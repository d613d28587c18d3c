//! The body that `cargo publish` sends: the length of a JSON document, the document, the length of the archive, the archive.
//! The lengths are little-endian 32-bit integers.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read};

use semver::VersionReq;
use serde::Deserialize;
use serde_json::de::SliceRead;

use super::{CrateName, CrateVersion, Dependency, DependencyKind, IndexEntry};
use crate::json::{self, JsonError};

/// Maximum size of the JSON document, in bytes. It contains the text of the readme.
pub const MAX_METADATA_BYTES: u32 = 4 << 20;
/// Maximum size of the line of a version in the index, in bytes.
pub const MAX_ENTRY_BYTES: usize = 64 << 10;
/// Maximum length of a name or a requirement in the document, in bytes.
const MAX_TEXT_BYTES: usize = 255;
/// Maximum length of a platform or of the URL of a registry, in bytes.
const MAX_LONG_TEXT_BYTES: usize = 2_048;

/// The start of a body, up to the archive.
#[derive(Debug, PartialEq, Eq)]
pub struct Publication {
    /// The name.
    pub name: CrateName,
    /// The version.
    pub version: CrateVersion,
    /// The line in the index, without the digest of the archive.
    pub entry: IndexEntry,
    /// Number of bytes before the archive.
    pub archive_start: u64,
    /// Size of the archive in bytes.
    pub archive_size: u64,
}

/// Error of a body.
#[derive(Debug, thiserror::Error)]
pub enum PublicationError<E> {
    /// The body is invalid or exceeds a limit; contains a text for the client.
    #[error("{0}")]
    Invalid(String),
    /// The memory of the document cannot be reserved; contains the error of the reservation.
    #[error("{0}")]
    Memory(E),
    /// The body cannot be read.
    #[error(transparent)]
    Io(io::Error),
}

/// Reads a body of `size` bytes up to the archive. Memory of the parsed document is reserved by `reserve`; see [`json::parse`].
///
/// # Errors
/// Returns [`PublicationError::Invalid`] if the body is invalid, [`PublicationError::Memory`] with the error of `reserve`, and
/// [`PublicationError::Io`] if reading fails.
pub fn read_publication<E: Display>(
    body: &mut impl Read,
    size: u64,
    reserve: &dyn Fn(u64) -> Result<(), E>,
) -> Result<Publication, PublicationError<E>> {
    let invalid = |text: String| PublicationError::Invalid(text);
    let length = read_length(body)?;
    if length > MAX_METADATA_BYTES {
        let text = format!("the metadata is too large (maximum is {MAX_METADATA_BYTES} bytes)");
        return Err(invalid(text));
    }
    let mut text = Vec::new();
    let read = body.by_ref().take(length.into()).read_to_end(&mut text);
    if read.map_err(PublicationError::Io)? as u64 != u64::from(length) {
        return Err(invalid("the body is incomplete".to_owned()));
    }
    let archive_size = u64::from(read_length(body)?);
    let archive_start = 8 + u64::from(length);
    if archive_start + archive_size != size {
        let text = "the body does not have the size that its lengths state".to_owned();
        return Err(invalid(text));
    }
    let parsed = json::parse(SliceRead::new(&text), length.into(), reserve);
    let value = parsed.map_err(|error| match error {
        JsonError::Memory(error) => PublicationError::Memory(error),
        other => invalid(format!("the metadata is invalid: {other}")),
    })?;
    let metadata: Metadata = serde_json::from_value(value)
        .map_err(|error| invalid(format!("the metadata is invalid: {error}")))?;
    let (name, version, entry) = metadata.checked().map_err(invalid)?;
    Ok(Publication {
        name,
        version,
        entry,
        archive_start,
        archive_size,
    })
}

fn read_length<E>(body: &mut impl Read) -> Result<u32, PublicationError<E>> {
    let mut bytes = [0; 4];
    match body.read_exact(&mut bytes) {
        Ok(()) => Ok(u32::from_le_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(PublicationError::Invalid("the body is incomplete".to_owned()))
        }
        Err(error) => Err(PublicationError::Io(error)),
    }
}

/// Attributes of the document that are in the index. Others describe the crate to people.
#[derive(Deserialize)]
struct Metadata {
    name: String,
    vers: String,
    deps: Vec<SentDependency>,
    features: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    links: Option<String>,
    #[serde(default)]
    rust_version: Option<String>,
}

#[derive(Deserialize)]
struct SentDependency {
    name: String,
    version_req: String,
    #[serde(default)]
    features: Vec<String>,
    #[serde(default)]
    optional: bool,
    #[serde(default = "enabled")]
    default_features: bool,
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    kind: Option<DependencyKind>,
    #[serde(default)]
    registry: Option<String>,
    #[serde(default)]
    explicit_name_in_toml: Option<String>,
}

fn enabled() -> bool {
    true
}

impl Metadata {
    /// Checks the attributes. An error is a text for the client.
    fn checked(self) -> Result<(CrateName, CrateVersion, IndexEntry), String> {
        let name = CrateName::parse(&self.name).map_err(|error| format!("name {error}"))?;
        let version = CrateVersion::parse(&self.vers).map_err(|error| format!("vers {error}"))?;
        let features = self.features.iter();
        let mut texts = features.flat_map(|(name, values)| std::iter::once(name).chain(values));
        if !texts.all(|text| is_text(text, MAX_TEXT_BYTES)) {
            return Err("features has an invalid name".to_owned());
        }
        for (attribute, value) in [("links", &self.links), ("rust_version", &self.rust_version)] {
            if value.as_ref().is_some_and(|text| !is_text(text, MAX_TEXT_BYTES)) {
                return Err(format!("{attribute} is invalid"));
            }
        }
        let deps = self.deps.into_iter().map(SentDependency::checked);
        let mut entry = IndexEntry {
            name: self.name,
            vers: self.vers,
            deps: deps.collect::<Result<_, _>>()?,
            cksum: String::new(),
            features: self.features,
            features2: BTreeMap::new(),
            yanked: false,
            links: self.links,
            rust_version: self.rust_version,
            v: None,
        };
        entry.separate_features();
        match entry.to_line() {
            Ok(line) if line.len() <= MAX_ENTRY_BYTES => Ok((name, version, entry)),
            Ok(_) => Err(format!(
                "the dependencies and features are too large (maximum is {MAX_ENTRY_BYTES} bytes in the index)"
            )),
            Err(error) => Err(format!("the metadata is invalid: {error}")),
        }
    }
}

impl SentDependency {
    fn checked(self) -> Result<Dependency, String> {
        if CrateName::parse(&self.name).is_err() {
            return Err(format!("deps has an invalid name: {:?}", shortened(&self.name)));
        }
        let name = self.name;
        let invalid = |attribute: &str| Err(format!("{attribute} of the dependency {name} is invalid"));
        if self.version_req.len() > MAX_TEXT_BYTES || VersionReq::parse(&self.version_req).is_err() {
            return invalid("version_req");
        }
        if !self
            .features
            .iter()
            .all(|feature| is_text(feature, MAX_TEXT_BYTES))
        {
            return invalid("features");
        }
        for (attribute, value, limit) in [
            ("target", &self.target, MAX_LONG_TEXT_BYTES),
            ("registry", &self.registry, MAX_LONG_TEXT_BYTES),
            (
                "explicit_name_in_toml",
                &self.explicit_name_in_toml,
                MAX_TEXT_BYTES,
            ),
        ] {
            if value.as_ref().is_some_and(|text| !is_text(text, limit)) {
                return invalid(attribute);
            }
        }
        let (name, package) = match self.explicit_name_in_toml {
            Some(explicit) => (explicit, Some(name)),
            None => (name, None),
        };
        Ok(Dependency {
            name,
            req: self.version_req,
            features: self.features,
            optional: self.optional,
            default_features: self.default_features,
            target: self.target,
            kind: self.kind.unwrap_or(DependencyKind::Normal),
            registry: self.registry,
            package,
        })
    }
}

/// Returns whether a text is not empty, has at most `limit` bytes and contains no control characters.
fn is_text(text: &str, limit: usize) -> bool {
    !text.is_empty() && text.len() <= limit && !text.chars().any(char::is_control)
}

/// Returns the start of a text for an error.
fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
