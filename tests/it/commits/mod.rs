//! Commits of a repository.

mod comments;
mod creating;
mod listing;
mod messages;
mod races;
mod reading;
mod transplanting;
