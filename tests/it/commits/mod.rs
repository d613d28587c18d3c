//! Commits of a repository (specification 4.2).

mod comments;
mod creating;
mod listing;
mod races;
mod reading;
mod transplanting;
