//! The contract's traits, one file a tag: unpack, call one service, map with a view.

mod branches;
mod commits;
mod metadata;
mod repositories;
mod repository_files;
mod tags;
