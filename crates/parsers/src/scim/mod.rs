//! Filters and patches of SCIM (RFC 7644).

mod error;
mod filter;
mod operations;
mod schema;

pub use error::{ScimError, ScimErrorType};
pub use filter::{UserSelector, parse_filter};
pub use operations::{ScimUserUpdate, UserOperation, full_name, merge_operations};
pub use schema::{USER_SCHEMA, check_uid};
