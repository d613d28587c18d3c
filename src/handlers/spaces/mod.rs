//! Handlers of projects, groups, namespaces and members.

pub mod badges;
pub mod group_members;
pub mod group_single_sign_on;
pub mod groups;
pub mod members;
pub mod namespaces;
pub mod project_forks;
pub mod project_members;
pub mod project_shares;
pub mod project_stars;
pub mod projects;
pub mod scim;
