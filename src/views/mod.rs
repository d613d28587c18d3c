//! From rows and Git objects to the contract's types: pure functions, one file a resource.

pub mod access_tokens;
pub mod blob;
pub mod branch;
pub mod commit;
pub mod comparison;
pub mod contributor;
pub mod file;
pub mod group;
pub mod links;
pub mod member;
pub mod project;
pub mod tag;
pub mod tree;
pub mod users;
pub mod words;
