//! Deletion of projects, groups, users and webhooks with their content.

mod delay;
pub mod groups;
mod namespaces;
pub mod projects;
mod rows;
pub mod users;
pub mod webhooks;
