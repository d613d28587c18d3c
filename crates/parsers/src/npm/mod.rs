//! npm packages: names, versions, tags, and the document that `npm publish` and `npm deprecate` send.

pub mod document;
mod name;
mod version;

pub use document::{
    Archive, Deprecation, DocumentError, MAX_DEPRECATION_LENGTH, MAX_DOCUMENT_BYTES, MAX_MANIFEST_BYTES,
    NpmDocument, Publication, read_document,
};
pub use name::{InvalidNpmName, NpmName, NpmTag};
pub use version::{InvalidNpmVersion, NpmVersion};
