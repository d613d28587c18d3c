//! Commits of a repository: lists, creation and comments.

pub mod cherry_pick;
pub mod comments;
pub mod commit;
pub mod content;
pub mod create;
pub mod listing;
pub mod start_point;
