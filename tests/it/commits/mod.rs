//! Commits of a repository (specification 4.2).

mod comments;
mod creating;
mod listing;
mod messages;
mod races;
mod reading;
mod transplanting;
