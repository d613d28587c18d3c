//! Views of projects, groups, namespaces and members.

pub mod badge;
pub mod group;
pub mod member;
pub mod namespace;
pub mod project;
pub mod scim;
pub mod share;
