//! The contract's traits, one file a tag: unpack, call one service, map with a view.

mod group_members;
mod groups;
mod metadata;
mod project_members;
mod projects;
