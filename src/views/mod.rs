//! From rows and Git objects to the contract's types: pure functions, one file a resource.

pub mod access_tokens;
pub mod account;
pub mod application;
pub mod application_settings;
pub mod blob;
pub mod branch;
pub mod commit;
pub mod comparison;
pub mod contributor;
pub mod custom_attribute;
pub mod events;
pub mod file;
pub mod group;
pub mod html;
pub mod issue;
pub mod links;
pub mod member;
pub mod namespace;
pub mod project;
pub mod project_hooks;
pub mod share;
pub mod tag;
pub mod tree;
pub mod upload;
pub mod users;
pub mod words;
