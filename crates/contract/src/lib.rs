//! The API contract: component schemas, requests and the operation table, generated from `openapi/`, and the
//! published documents.
//!
//! The generated types are at the root of the package. They are wire types: they have public fields and no
//! rules. [`table`] describes the operations, with which the server reads and authorizes requests.

pub mod deferred;
pub mod document;
pub mod input;
pub mod map;
pub mod operation;
pub mod table;
pub mod timestamp;

mod generated;

pub use generated::*;
pub use poem_openapi::types::MaybeUndefined;
