//! Tests of projects, groups, namespaces and members.

pub mod badges;
mod former_paths;
pub mod groups;
pub mod members;
pub mod namespaces;
pub mod project_forks;
pub mod project_shares;
pub mod project_stars;
pub mod projects;
pub mod scim;
