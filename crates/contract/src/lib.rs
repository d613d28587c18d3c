//! The API contract: component schemas, requests and the operation table, generated from `openapi/`, and the
//! published document.
//!
//! The generated types are at the root of the package. They are wire types: they have public fields and no
//! rules. [`table`] describes the operations, with which the server reads and authorizes requests.

pub mod input;
pub mod map;
pub mod operation;
pub mod table;
pub mod timestamp;

mod generated;

pub use generated::*;
pub use poem_openapi::types::MaybeUndefined;

/// The bundled OpenAPI document as JSON, exactly as published.
pub const DOCUMENT_JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));
/// The bundled OpenAPI document as YAML.
pub const DOCUMENT_YAML: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.yaml"));
