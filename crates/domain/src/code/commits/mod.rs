//! Commits of a repository: lists, creation, comments and signatures.

pub mod cherry_pick;
pub mod comments;
pub mod commit;
pub mod content;
pub mod create;
pub mod listing;
pub mod signature;
mod ssh_signatures;
pub mod start_point;
