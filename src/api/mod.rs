//! The REST API's edge: the generated contract and the runtime around it.

mod answers;
pub mod contract;
pub mod credentials;
pub mod download;
pub mod edge;
pub mod exchange;
pub mod failure;
mod form;
mod map;
mod media_type;
pub mod operation;
pub mod paging;
pub(crate) mod parameters;
pub mod record_validator;
pub mod reply;
pub mod revalidation;
mod spool;
pub mod types;

/// The bundled OpenAPI document as JSON, exactly as published.
pub const DOCUMENT_JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));
/// The bundled OpenAPI document as YAML.
pub const DOCUMENT_YAML: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.yaml"));
