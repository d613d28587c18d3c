//! Commits of a repository.

mod cherry_pick;
mod comments;
mod create;
mod get;
mod list;
mod merge_requests;
mod messages;
mod races;
mod sequence;
mod signature;
