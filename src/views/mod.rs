//! From rows and Git objects to the contract's types: pure functions, one file a resource.

pub mod access_tokens;
pub mod users;
