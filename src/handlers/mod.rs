//! The contract's traits, one file a tag: unpack, call one service, map with a view.

mod branches;
mod commits;
mod group_members;
mod groups;
mod impersonation_tokens;
mod metadata;
mod personal_access_tokens;
mod project_members;
mod projects;
mod repositories;
mod repository_files;
mod tags;
mod users;
