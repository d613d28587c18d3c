//! Projects, groups and namespaces, with their members.

pub mod badges;
pub mod groups;
pub mod jobs;
pub mod members;
pub mod namespaces;
pub mod projects;
pub mod repository_import;
pub mod scim;
pub mod single_sign_on;
pub mod verified_domains;
