//! Deletion of projects, groups and users with their content.

mod delay;
pub mod groups;
mod namespaces;
pub mod projects;
mod rows;
pub mod users;
