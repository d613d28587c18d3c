//! From rows and Git objects to the contract's types: pure functions, one file a resource.

pub mod group;
pub mod member;
pub mod project;
pub mod words;
