//! The document that `npm publish` and `npm deprecate` send with PUT.
//!
//! A document with `_attachments` publishes one version: it contains the manifest of the version and its archive. A document
//! without attachments changes the deprecation of existing versions. Only the attributes that clients need to install a
//! package are kept. The provenance of a version, which `npm publish --provenance` adds as an attachment, is ignored.

mod scanner;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::io::{self, Read, Write};

use serde_json::de::SliceRead;
use serde_json::{Map, Value};

use super::{NpmName, NpmTag, NpmVersion};
use crate::json::{self, JsonError};
use scanner::DocumentScanner;

pub use scanner::MAX_DOCUMENT_BYTES;

/// Maximum size of a stored manifest as JSON, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 20_000;
/// Maximum length of a deprecation message, in characters.
pub const MAX_DEPRECATION_LENGTH: usize = 4_096;
/// Maximum number of tags of a document that publishes a version.
const MAX_TAGS: usize = 5;
/// End of the names of attachments with the provenance of a version.
const PROVENANCE_SUFFIX: &str = ".sigstore";
/// Size of the read buffer, in bytes.
const PIECE: usize = 64 << 10;

/// Attributes of a manifest that are kept, except `name`, `version`, `deprecated` and `dist`.
const KEPT_ATTRIBUTES: [&str; 18] = [
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "bundleDependencies",
    "bundledDependencies",
    "bin",
    "directories",
    "engines",
    "os",
    "cpu",
    "libc",
    "funding",
    "description",
    HAS_INSTALL_SCRIPT,
    "gypfile",
    "_hasShrinkwrap",
];
/// Attribute of a version with a script of [`INSTALL_SCRIPTS`]. npm does not upload it, and runs the scripts of an
/// archive only if the registry returns it.
const HAS_INSTALL_SCRIPT: &str = "hasInstallScript";
/// Names of the scripts that npm runs when it installs a package.
const INSTALL_SCRIPTS: [&str; 3] = ["preinstall", "install", "postinstall"];
/// Attributes that map the names of packages to versions.
const DEPENDENCIES: [&str; 4] = [
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
];

/// Error of a document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError<E> {
    /// The document is invalid or exceeds a limit; contains a text for the client.
    #[error("{0}")]
    Invalid(String),
    /// The memory of the document cannot be reserved; contains the error of the reservation.
    #[error("{0}")]
    Memory(E),
    /// The document cannot be read, or the archive cannot be written.
    #[error(transparent)]
    Io(io::Error),
}

/// A document.
#[derive(Debug, PartialEq)]
pub enum NpmDocument {
    /// A new version.
    Publish(Box<Publication>),
    /// Changes of the deprecation of versions.
    Deprecate {
        /// The name of the package.
        name: NpmName,
        /// The changes, by version.
        changes: Vec<Deprecation>,
    },
}

/// A new version of a package.
#[derive(Debug, PartialEq)]
pub struct Publication {
    /// The name of the package.
    pub name: NpmName,
    /// The version.
    pub version: NpmVersion,
    /// The tags to set to the version; at least one.
    pub tags: Vec<NpmTag>,
    /// The kept attributes of the manifest.
    pub manifest: Map<String, Value>,
    /// The deprecation message of the new version.
    pub deprecated: Option<String>,
    /// The archive.
    pub archive: Archive,
}

/// The archive of a version, as the document describes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Archive {
    /// Size in bytes.
    pub size: u64,
    /// SHA-1 digest in hex digits, if the manifest contains it.
    pub shasum: Option<String>,
    /// Subresource integrity, such as `sha512-...`, if the manifest contains it.
    pub integrity: Option<String>,
}

/// A change of the deprecation of a version.
#[derive(Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// The version.
    pub version: NpmVersion,
    /// The new message; `None` ends the deprecation.
    pub message: Option<String>,
}

/// Reads a document and writes the decoded archive to `archive`. Memory of the parsed document is reserved by `reserve`; see
/// [`json::parse`].
///
/// # Errors
/// Returns [`DocumentError::Invalid`] if the document is invalid, [`DocumentError::Memory`] with the error of `reserve`, and
/// [`DocumentError::Io`] if reading or writing fails.
pub fn read_document<E: Display>(
    body: &mut impl Read,
    archive: &mut impl Write,
    reserve: &dyn Fn(u64) -> Result<(), E>,
) -> Result<NpmDocument, DocumentError<E>> {
    let mut scanner = DocumentScanner::new(archive);
    let mut piece = vec![0; PIECE];
    loop {
        match body.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => scanner.push(piece.get(..length).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(DocumentError::Io(error)),
        }
    }
    let scanned = scanner.finish()?;
    let size = scanned.text.len() as u64;
    let parsed = json::parse(SliceRead::new(&scanned.text), size, reserve);
    let value = parsed.map_err(|error| match error {
        JsonError::Memory(error) => DocumentError::Memory(error),
        other => DocumentError::Invalid(other.to_string()),
    })?;
    document(value, scanned.archive_bytes).map_err(DocumentError::Invalid)
}

/// Converts a parsed document. An error is a text for the client.
fn document(value: Value, archive_bytes: Option<u64>) -> Result<NpmDocument, String> {
    let Value::Object(mut root) = value else {
        return Err("the body must be an object".to_owned());
    };
    let name = match root.get("name") {
        Some(Value::String(name)) => NpmName::parse(name).map_err(|error| format!("name {error}"))?,
        Some(_) => return Err("name must be a string".to_owned()),
        None => return Err("name is missing".to_owned()),
    };
    let versions = match root.remove("versions") {
        Some(Value::Object(versions)) if !versions.is_empty() => versions,
        Some(Value::Object(_)) | None => return Err("versions is missing".to_owned()),
        Some(_) => return Err("versions must be an object".to_owned()),
    };
    let attachments = match root.remove("_attachments") {
        Some(Value::Object(attachments)) => attachments,
        Some(Value::Null) | None => Map::new(),
        Some(_) => return Err("_attachments must be an object".to_owned()),
    };
    if attachments.is_empty() {
        let changes = versions
            .into_iter()
            .filter_map(|(version, manifest)| change(&version, &manifest).transpose());
        return Ok(NpmDocument::Deprecate {
            name,
            changes: changes.collect::<Result<_, _>>()?,
        });
    }
    let size = attachment_size(&attachments, archive_bytes)?;
    let mut versions = versions.into_iter();
    let (Some((version, manifest)), None) = (versions.next(), versions.next()) else {
        return Err("versions must contain one version if the document has an attachment".to_owned());
    };
    let version = parse_version(&version)?;
    let tags = tags(root.get("dist-tags"), &version)?;
    let Value::Object(manifest) = manifest else {
        return Err(format!("versions[{}] must be an object", version.as_str()));
    };
    publication(name, version, tags, manifest, size)
        .map(|publication| NpmDocument::Publish(Box::new(publication)))
}

fn parse_version(text: &str) -> Result<NpmVersion, String> {
    NpmVersion::parse(text).map_err(|error| format!("version {error}"))
}

/// Returns the change of one version; `None` if the manifest does not have `deprecated`.
fn change(version: &str, manifest: &Value) -> Result<Option<Deprecation>, String> {
    let version = parse_version(version)?;
    let Some(message) = manifest.get("deprecated") else {
        return Ok(None);
    };
    let message = deprecation(message)?;
    Ok(Some(Deprecation { version, message }))
}

/// Returns the message of an attribute `deprecated`. Clients send an empty string, and some send false, to end a deprecation.
fn deprecation(value: &Value) -> Result<Option<String>, String> {
    let message = match value {
        Value::String(message) => message,
        Value::Null | Value::Bool(false) => return Ok(None),
        _ => return Err("deprecated must be a string".to_owned()),
    };
    if message.chars().count() > MAX_DEPRECATION_LENGTH {
        return Err(format!(
            "deprecated is too long (maximum is {MAX_DEPRECATION_LENGTH} characters)"
        ));
    }
    if message.contains('\0') {
        return Err("deprecated must not contain NUL".to_owned());
    }
    Ok((!message.is_empty()).then(|| message.clone()))
}

/// Checks the attachment of a document, and returns its size.
fn attachment_size(attachments: &Map<String, Value>, scanned: Option<u64>) -> Result<u64, String> {
    let empty = || "Attachment data is empty.".to_owned();
    let archives = attachments
        .iter()
        .filter(|(name, _)| !name.ends_with(PROVENANCE_SUFFIX));
    let mut archives = archives.map(|(_, attachment)| attachment);
    let attachment = archives.next().ok_or_else(empty)?;
    if archives.next().is_some() {
        return Err("the document has several attachments (maximum is 1)".to_owned());
    }
    // A string that the scanner did not decode has a key with escape sequences.
    if attachment.get("data").and_then(Value::as_str) != Some("") {
        return Err(empty());
    }
    let size = scanned.filter(|size| *size > 0).ok_or_else(empty)?;
    match attachment.get("length").map(Value::as_u64) {
        Some(length) if length != Some(size) => {
            Err("the attachment does not have the size of its attribute length".to_owned())
        }
        _ => Ok(size),
    }
}

fn tags(value: Option<&Value>, version: &NpmVersion) -> Result<Vec<NpmTag>, String> {
    let entries = match value {
        Some(Value::Object(entries)) => entries,
        Some(Value::Null) | None => return Ok(vec![NpmTag::latest()]),
        Some(_) => return Err("dist-tags must be an object".to_owned()),
    };
    if entries.len() > MAX_TAGS {
        return Err(format!("dist-tags has too many tags (maximum is {MAX_TAGS})"));
    }
    let mut tags = Vec::new();
    for (tag, target) in entries {
        if target.as_str() != Some(version.as_str()) {
            return Err("dist-tags must contain only the version that is published".to_owned());
        }
        tags.push(NpmTag::parse(tag).ok_or("dist-tags has an invalid tag")?);
    }
    if tags.is_empty() {
        tags.push(NpmTag::latest());
    }
    Ok(tags)
}

fn publication(
    name: NpmName,
    version: NpmVersion,
    tags: Vec<NpmTag>,
    mut manifest: Map<String, Value>,
    size: u64,
) -> Result<Publication, String> {
    for (attribute, expected) in [("name", name.as_str()), ("version", version.as_str())] {
        match manifest.get(attribute).map(Value::as_str) {
            Some(found) if found != Some(expected) => {
                return Err(format!("{attribute} of the manifest differs from the document"));
            }
            _ => {}
        }
    }
    let digest = |attribute: &str| {
        let text = manifest.get("dist")?.get(attribute)?.as_str()?;
        Some(text.to_owned())
    };
    let archive = Archive {
        size,
        shasum: digest("shasum"),
        integrity: digest("integrity"),
    };
    let deprecated = deprecation(manifest.get("deprecated").unwrap_or(&Value::Null))?;
    if has_install_script(&manifest) {
        manifest.insert(HAS_INSTALL_SCRIPT.to_owned(), Value::Bool(true));
    }
    let mut kept = Map::new();
    for attribute in KEPT_ATTRIBUTES {
        match manifest.remove(attribute) {
            None | Some(Value::Null) => {}
            Some(value) => {
                check_attribute(attribute, &value)?;
                kept.insert(attribute.to_owned(), value);
            }
        }
    }
    let size = serde_json::to_vec(&kept).map_or(usize::MAX, |text| text.len());
    if size > MAX_MANIFEST_BYTES {
        return Err(format!(
            "the manifest is too large (maximum is {MAX_MANIFEST_BYTES} bytes of dependencies and similar attributes)"
        ));
    }
    Ok(Publication {
        name,
        version,
        tags,
        manifest: kept,
        deprecated,
        archive,
    })
}

/// Returns whether a manifest has a script that npm runs when it installs the package.
fn has_install_script(manifest: &Map<String, Value>) -> bool {
    let script = |name: &'static str| manifest.get("scripts")?.get(name)?.as_str();
    let mut scripts = INSTALL_SCRIPTS.into_iter().filter_map(script);
    scripts.any(|script| !script.is_empty())
}

/// Checks a kept attribute. Clients fail on dependencies of another type, and then cannot install any version.
fn check_attribute(attribute: &str, value: &Value) -> Result<(), String> {
    if DEPENDENCIES.contains(&attribute) {
        let is_valid = value
            .as_object()
            .is_some_and(|entries| entries.values().all(Value::is_string));
        if !is_valid {
            return Err(format!("{attribute} must be an object of strings"));
        }
    }
    match contains_nul(value) {
        true => Err(format!("{attribute} must not contain NUL")),
        false => Ok(()),
    }
}

/// Returns whether a key or a string of a value contains NUL. The parser limits the nesting of values.
fn contains_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(contains_nul),
        Value::Object(entries) => entries
            .iter()
            .any(|(key, value)| key.contains('\0') || contains_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
