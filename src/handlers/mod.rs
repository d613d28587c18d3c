//! The contract's traits, one file a tag: unpack, call one service, map with a view.

mod commits;
mod metadata;
mod repository_files;
