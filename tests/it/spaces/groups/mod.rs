//! Groups.

mod avatar;
mod create;
mod delete;
mod edit;
mod list;
mod project_members;
mod projects;
mod share;
mod subgroups;
mod transfer;
