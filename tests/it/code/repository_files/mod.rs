//! Files of a repository.

mod access;
mod commit;
mod get;
mod raw;
