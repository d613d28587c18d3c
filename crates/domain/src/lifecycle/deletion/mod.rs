//! Deletion of projects, groups and users with their content.

mod delay;
pub mod groups;
mod namespaces;
mod project_rows;
pub mod projects;
pub mod users;
